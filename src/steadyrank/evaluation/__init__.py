"""The paper's evaluation: profiles, studies, the laboratory that runs them, and the report."""
