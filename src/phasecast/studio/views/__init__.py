"""What the pages look like: one module per page, drawn with streamlit."""
