"""The first page of a service, made for nobody, so that the first visitor does not wait for it."""

from levers.studies.managing import create_study
from levers.web.charts import CHARTS
from levers.web.pages.rendering import environment
from levers.web.seen import Sight


def warm_up() -> None:
    """Load and compute once what every first look at a study needs: libraries, tables of tails, templates.

    >>> warm_up()
    """
    space = {f"x{k}": list(range(4)) for k in range(5)}
    study = create_study("nobody's", space, tolerance=1.0, noise_sd=1.0, seed=0)
    for _ in range(2):
        study.tell_many((trial, float(trial.number % 7)) for trial in study.ask(1000))
    sight = Sight(study.name, study.frozen())
    sight.look()
    sight.charts(CHARTS)
    for name in environment().list_templates():
        environment().get_template(name)
