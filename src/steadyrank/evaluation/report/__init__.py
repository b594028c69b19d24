"""Results become figures and tables; nothing here simulates."""
