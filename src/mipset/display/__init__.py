"""What people look at: tables, charts, pictures, progress."""
