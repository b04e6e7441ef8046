"""Evidence of a fit, and the page that shows it.

The picture of a page in the docs is a screenshot of its first 1510 pixels. `flowratio demo` writes the tables:
`chromium --headless --hide-scrollbars --window-size=1280,1510 --screenshot=docs/report.png report.html`
"""
