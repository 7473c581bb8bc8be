/** What the columns and fields say, from Experiments and Trials. */
import {
  Criterion,
  ExperimentManifest,
  LABEL_TRIAL,
  Parameter,
  REASONS_WITH_POD,
  TrialManifest,
} from './api';

const DIGITS = 4;

/** A number with four digits; what is no number stays as it is. */
export function formatNumber(text: string): string {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number) || Number.isInteger(number)) {
    return text;
  }
  return String(Number(number.toPrecision(DIGITS)));
}

/** What a column is sorted by: undefined where there is no number. */
export function readNumber(text: string | undefined): number | undefined {
  const number = Number(text || NaN);
  return Number.isNaN(number) ? undefined : number;
}

export interface Progress {
  done: number;
  /** How many trials there will be; undefined if their number has no limit. */
  expected: number | undefined;
  text: string;
}

/** How far an experiment is, counted as `kubectl podtune watch` does. */
export function computeProgress({ spec, status }: ExperimentManifest): Progress {
  const trials = status?.trials;
  const done = (trials?.terminated ?? 0) + (trials?.error ?? 0);
  const limit = spec.search?.maxTrials;
  if (typeof limit !== 'number') {
    return { done, expected: undefined, text: `${done}` };
  }
  const expected = Math.max(limit + (trials?.added ?? 0), trials?.total ?? 0);
  return { done, expected, text: `${done} / ${expected}` };
}

/** How many trials are in each state, without those that none is in. */
export function describeCounts({ status }: ExperimentManifest): string {
  const trials = status?.trials;
  const counts: [number | undefined, string][] = [
    [trials?.running, 'running'],
    [trials?.pending, 'pending'],
    [trials?.paused, 'paused'],
    [trials?.terminated, 'done'],
    [trials?.stoppedEarly, 'of them stopped early'],
    [trials?.error, 'failed'],
  ];
  return counts
    .filter(([count]) => count)
    .map(([count, what]) => `${count} ${what}`)
    .join(', ');
}

/** The best value of an experiment's first objective with its name; empty where there is none yet. */
export function describeBest({ spec, status }: ExperimentManifest): string {
  const value = status?.best?.text || formatNumber(status?.best?.value ?? '');
  return value && `${spec.objective.metric} ${value}`;
}

/** What is sought: `max accuracy`, and the other objectives. */
export function describeObjective({ spec }: ExperimentManifest): string {
  return listCriteria(spec.objective)
    .map(({ metric, mode }) => `${mode} ${metric}`)
    .join(', ');
}

export function listCriteria({
  others,
  ...first
}: ExperimentManifest['spec']['objective']): Criterion[] {
  return [first, ...(others ?? [])];
}

/** What a parameter may be, in a few words. */
export function describeParameter(parameter: Parameter): string {
  const { float, int, choice, normal, logNormal, fixed, expression } = parameter;
  const range = float ?? int;
  if (range) {
    const steps = range.step === undefined ? '' : `, in steps of ${range.step}`;
    const scale = range.scale === 'log' ? ', log scale' : '';
    return `${range.min} to ${range.max}${int ? ', whole numbers' : ''}${steps}${scale}`;
  }
  if (choice) {
    return choice.values.map(value => writeValue(value)).join(', ');
  }
  const bell = normal ?? logNormal;
  if (bell) {
    return `${normal ? 'normal' : 'log-normal'}, mean ${bell.mean}, deviation ${bell.stddev}`;
  }
  if (fixed) {
    return `always ${writeValue(fixed.value)}`;
  }
  return expression === undefined ? '' : `= ${expression}`;
}

function writeValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The parameters that a trial runs with now. */
export function getParameters({ spec, status }: TrialManifest): Record<string, string> {
  const present = status?.parameters;
  return present && Object.keys(present).length > 0 ? present : spec.parameters;
}

/** A configuration in one line: `depth 3, rate 0.01771`. */
export function describeConfiguration(parameters: Record<string, string> | undefined): string {
  return Object.entries(parameters ?? {})
    .map(([name, value]) => `${name} ${formatNumber(value)}`)
    .join(', ');
}

/** The last result of a trial: the objectives' metrics, or else all, and the iteration. */
export function describeLastResult({ status }: TrialManifest, metrics: string[]): string {
  const result = status?.lastResult;
  if (!result) {
    return '';
  }
  const named = metrics.filter(metric => metric in result);
  const values = named.map(metric => `${metric} ${formatNumber(result[metric] ?? '')}`);
  const iteration = status?.iteration;
  return [...values, ...(iteration === undefined ? [] : [`iteration ${iteration}`])].join(', ');
}

/** The best value of a trial, for people; empty where there is none yet. */
export function describeBestOfTrial({ status }: TrialManifest): string {
  return status?.bestText || formatNumber(status?.bestValue ?? '');
}

/** How often it was tried, and what went wrong: `3 (1 failure, 1 disruption)`. */
export function describeAttempts({ status }: TrialManifest): string {
  const counts: [number | undefined, string][] = [
    [status?.failures, 'failure'],
    [status?.disruptions, 'disruption'],
    [status?.infrastructureFailures, 'infrastructure failure'],
  ];
  const troubles = counts
    .filter(([count]) => count)
    .map(([count, what]) => `${count} ${what}${count === 1 ? '' : 's'}`);
  const attempts = `${status?.attempt ?? 0}`;
  return troubles.length > 0 ? `${attempts} (${troubles.join(', ')})` : attempts;
}

/** The pod of the current attempt; undefined where there is none, because those of earlier attempts may be gone. */
export function findPod({ status }: TrialManifest): string | undefined {
  const hasOne =
    status?.state === 'RUNNING' ||
    (status?.state === 'PENDING' && REASONS_WITH_POD.includes(status.reason ?? ''));
  return hasOne ? status.pod?.name : undefined;
}

/** What the plugin reads of a pod. */
export interface PodLabels {
  name: string;
  labels?: Record<string, string>;
}

/** Whether a pod is one of a trial's; pods that serve one trial after the other don't bear its name. */
export function isPodOf({ metadata, status }: TrialManifest, pod: PodLabels): boolean {
  return pod.labels?.[LABEL_TRIAL] === metadata.name || pod.name === status?.pod?.name;
}

/** Hours with two decimals: `1.25 h`. */
export function formatHours(hours: number | undefined): string {
  return `${(hours ?? 0).toFixed(2)} h`;
}
