"""Charts that the server draws, as SVG that grows with its box while its letters keep their size."""
