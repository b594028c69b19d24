"""The paper's evaluation: profiles, studies, the lab that runs them, and the report."""
