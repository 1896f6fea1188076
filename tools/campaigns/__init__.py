"""Campaigns: programs that look for defects with seeds and counts, and print one table."""
