from phasecast.claims.singular_iclr2021.generalisation import ridge_laplace

right, wrong = ridge_laplace(hessian_of_mean=False), ridge_laplace(hessian_of_mean=True)
print(f"linear regression, where Laplace is exact: nG = {right:.2f}, with the Hessian of the mean loss {wrong:.0f}")
assert right < 3 and wrong > 15
