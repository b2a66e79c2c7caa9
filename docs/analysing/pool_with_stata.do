* Fit a logistic regression to the completed tables of a release, and pool the fits:
*
*     dalenius complete release --draws 20 --format dta --out stata
*
* WARNING: every draw is a possible truth, and not the data. Fit the model to all draws, and report what is pooled.

* mi wants the table without the sensitive values first (m is 0), then the draws (m is 1, 2, ...).
use "stata/draw-01.dta", clear
drop disease drawn_not_data
generate long id = _n
generate int m = 0
generate byte cancer = .
tempfile all
save `all'

forvalues draw = 1/20 {
    local number : display %02.0f `draw'
    use "stata/draw-`number'.dta", clear
    generate long id = _n
    generate int m = `draw'
    generate byte cancer = disease == "cancer"
    drop disease drawn_not_data
    append using `all'
    save `all', replace
}

encode smoker, generate(smokes)
mi import flong, m(m) id(id) imputed(cancer) clear
mi estimate: logit cancer age i.smokes
