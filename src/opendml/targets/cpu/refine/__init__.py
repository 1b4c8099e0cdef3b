"""What a processor makes of definitions before they are joined and scheduled: other layouts, the same arithmetic."""
