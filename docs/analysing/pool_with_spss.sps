* Fit a logistic regression to the completed tables of a release, and pool the fits:

*     dalenius complete release --draws 5 --format sav --out spss.

* WARNING: every draw is a possible truth, and not the data. Report what is pooled.

* All draws in one table. SPSS knows them as imputations by the name Imputation_.
ADD FILES
  /FILE='spss/draw-01.sav'
  /FILE='spss/draw-02.sav'
  /FILE='spss/draw-03.sav'
  /FILE='spss/draw-04.sav'
  /FILE='spss/draw-05.sav'.
RENAME VARIABLES (drawn_not_data = Imputation_).
COMPUTE cancer = (disease = 'cancer').
COMPUTE smokes = (smoker = 'yes').
EXECUTE.

* Whatever is fitted now is fitted to each draw, and pooled.
SPLIT FILE LAYERED BY Imputation_.
LOGISTIC REGRESSION VARIABLES cancer
  /METHOD=ENTER age smokes.
