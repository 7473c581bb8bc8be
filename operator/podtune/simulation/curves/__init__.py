"""What a trial would report: curves that were measured, and curves that are computed."""
