"""Models that a person writes down, and models made smaller."""
