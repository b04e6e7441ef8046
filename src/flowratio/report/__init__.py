"""Evidence of a fit, and the page that shows it."""
