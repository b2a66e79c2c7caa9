# Fit a logistic regression to the completed tables of a release, and pool the fits with mitools:
#
#     Rscript pool_with_mitools.R FOLDER
#
# WARNING: every draw is a possible truth, and not the data. Each draw deals the sensitive values of a bucket to its
# people anew, by chance. So no row says what that person has, and one draw alone gives wrong results: its standard
# errors are too small. Fit the model to all draws, and report what is pooled.

library(mitools)

# One file a draw. Row i is the same person in all of them.
folder <- commandArgs(trailingOnly = TRUE)[1]
files <- list.files(folder, pattern = "^draw-[0-9]+[.]csv$", full.names = TRUE)
stopifnot("The folder has to hold two draws or more, as CSV." = length(files) >= 2)
draws <- imputationList(lapply(files, read.csv))

# Your model goes here. It is fitted to each draw as it would be to the data.
fits <- with(draws, glm(disease == "cancer" ~ age + smoker, family = binomial))

# Rubin's rules. mitools takes the sample for a large one, unless it knows the degrees of freedom of the complete data.
# (Those of the result are then a little larger than with mice, which follows Barnard and Rubin to the letter: mitools
# leaves a factor 1 + 1/draws out. With 20 draws that hardly matters.)
pooled <- MIcombine(fits, df.complete = df.residual(fits[[1]]))
summary(pooled)

# The same as CSV.
table <- data.frame(
  term = names(coef(pooled)),
  estimate = coef(pooled),
  std.error = sqrt(diag(vcov(pooled))),
  df = pooled$df
)
write.csv(table, row.names = FALSE)
