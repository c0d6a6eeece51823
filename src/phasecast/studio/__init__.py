"""What would one like to look at? A local web app over a store: runs, theory with sliders, forecasts, claims.

``phasecast studio`` starts it. The modules here hold what the pages show and need no browser; ``views/`` draws it with
streamlit, which would take a folder named ``pages`` as its own. Runs are processes of their own that write to the
store, so a studio that is killed loses nothing.
"""

__all__: list[str] = []
