# Fit a logistic regression to the completed tables of a release, and pool the fits with mice:
#
#     Rscript pool_with_mice.R FOLDER
#
# WARNING: every draw is a possible truth, and not the data. Each draw deals the sensitive values of a bucket to its
# people anew, by chance. So no row says what that person has, and one draw alone gives wrong results: its standard
# errors are too small. Fit the model to all draws, and report what is pooled.

suppressPackageStartupMessages(library(mice))

# One file a draw. Row i is the same person in all of them.
folder <- commandArgs(trailingOnly = TRUE)[1]
files <- list.files(folder, pattern = "^draw-[0-9]+[.]csv$", full.names = TRUE)
stopifnot("The folder has to hold two draws or more, as CSV." = length(files) >= 2)
draws <- lapply(files, read.csv)

# The long format of mice: first the table without the sensitive values (.imp is 0), then the draws (.imp is 1, 2, ...).
# So mice takes the draws for imputations of a column that is missing for everybody. That column must not be a factor:
# mice 3.15 fails on one without any value.
missing <- draws[[1]]
missing$disease <- NA
tables <- c(list(missing), draws)
long <- do.call(rbind, tables)
long$drawn_not_data <- NULL
long$.imp <- rep(seq_along(tables) - 1, each = nrow(missing))
long$.id <- rep(seq_len(nrow(missing)), times = length(tables))
completed <- as.mids(long)

# Your model goes here. It is fitted to each draw as it would be to the data.
fits <- with(completed, glm(disease == "cancer" ~ age + smoker, family = binomial))

# Rubin's rules, with the degrees of freedom of Barnard and Rubin.
table <- summary(pool(fits), conf.int = TRUE)
print(table)

# The same as CSV.
write.csv(table[c("term", "estimate", "std.error", "df")], row.names = FALSE)
