/** Podtune in Headlamp: lists and details of Experiments and Trials, and the actions of `kubectl podtune`. */
import { registerRoute, registerSidebarEntry } from '@kinvolk/headlamp-plugin/lib';
import { ExperimentDetails } from './components/ExperimentDetails';
import { ExperimentList } from './components/ExperimentList';
import { TrialDetails } from './components/TrialDetails';
import { TrialList } from './components/TrialTable';
import { MARK } from './icons';
import { EXPERIMENT_DETAILS, EXPERIMENT_LIST, TRIAL_DETAILS, TRIAL_LIST } from './resources';

const ROOT = 'podtune';
const EXPERIMENTS = `/${ROOT}/experiments`;
const TRIALS = `/${ROOT}/trials`;

registerSidebarEntry({
  parent: null,
  name: ROOT,
  label: 'Podtune',
  url: EXPERIMENTS,
  icon: MARK,
});
registerSidebarEntry({
  parent: ROOT,
  name: EXPERIMENT_LIST,
  label: 'Experiments',
  url: EXPERIMENTS,
});
registerSidebarEntry({ parent: ROOT, name: TRIAL_LIST, label: 'Trials', url: TRIALS });

registerRoute({
  path: EXPERIMENTS,
  name: EXPERIMENT_LIST,
  sidebar: EXPERIMENT_LIST,
  exact: true,
  component: () => <ExperimentList />,
});
registerRoute({
  path: `${EXPERIMENTS}/:namespace/:name`,
  name: EXPERIMENT_DETAILS,
  sidebar: EXPERIMENT_LIST,
  exact: true,
  component: () => <ExperimentDetails />,
});
registerRoute({
  path: TRIALS,
  name: TRIAL_LIST,
  sidebar: TRIAL_LIST,
  exact: true,
  component: () => <TrialList />,
});
registerRoute({
  path: `${TRIALS}/:namespace/:name`,
  name: TRIAL_DETAILS,
  sidebar: TRIAL_LIST,
  exact: true,
  component: () => <TrialDetails />,
});
