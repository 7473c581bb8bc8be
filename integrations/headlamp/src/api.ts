/**
 * What the plugin reads of Experiments and Trials, as the CustomResourceDefinitions have it.
 *
 * The compiler refuses to read a field that is not here, and tests/unit/integrations/test_headlamp.py refuses one that
 * the definitions don't have.
 */

export const GROUP = 'podtune.dev';
export const VERSION = 'v1alpha1';
export const LABEL_EXPERIMENT = `${GROUP}/experiment`;
export const LABEL_TRIAL = `${GROUP}/trial`;

/** Reasons of a trial that is PENDING although it has a pod. */
export const REASONS_WITH_POD = [
  'Starting',
  'Unschedulable',
  'PullingImage',
  'CannotStart',
  'Restoring',
];

export interface Metadata {
  name: string;
  namespace?: string;
  generation?: number;
  deletionTimestamp?: string;
}

export interface ExperimentManifest {
  metadata: Metadata;
  spec: ExperimentSpec;
  status?: ExperimentStatus;
}

export interface ExperimentSpec {
  objective: Criterion & { others?: Criterion[] };
  parameters: Parameter[];
  search?: { algorithm?: string; maxTrials?: number | string };
  suspend?: boolean;
  resume?: { id?: string; unfinished?: string; errored?: string; finished?: string };
  stop?: { now?: boolean };
  checkpoints?: { store?: { bucket?: string } };
}

export interface Criterion {
  metric: string;
  mode: 'max' | 'min';
}

export interface Parameter {
  name: string;
  float?: { min: number; max: number; scale?: 'linear' | 'log'; step?: number };
  int?: { min: number; max: number; scale?: 'linear' | 'log'; step?: number };
  choice?: { values: unknown[] };
  normal?: { mean: number; stddev: number };
  logNormal?: { mean: number; stddev: number };
  fixed?: { value: unknown };
  expression?: string;
}

export interface ExperimentStatus {
  observedGeneration?: number;
  state?: 'Created' | 'Running' | 'Complete' | 'Failed' | 'Stalled' | 'Suspended';
  message?: string;
  trials?: {
    total: number;
    added?: number;
    pending?: number;
    running: number;
    paused: number;
    terminated: number;
    error: number;
    stoppedEarly?: number;
  };
  best?: {
    trial?: string;
    value?: string;
    text?: string;
    parameters?: Record<string, string>;
    checkpoint?: string;
  };
  paretoFront?: { trial: string; values?: Record<string, string> }[];
  usage?: { podHours?: number; gpuHours?: number };
  conditions?: Condition[];
}

export interface TrialManifest {
  metadata: Metadata;
  spec: TrialSpec;
  status?: TrialStatus;
}

export interface TrialSpec {
  experiment: string;
  displayName?: string;
  parameters: Record<string, string>;
  desiredState?: 'Running' | 'Paused' | 'Stopped';
}

export interface TrialStatus {
  observedGeneration?: number;
  state?: 'PENDING' | 'RUNNING' | 'PAUSED' | 'TERMINATED' | 'ERROR';
  reason?: string;
  message?: string;
  attempt?: number;
  failures?: number;
  disruptions?: number;
  infrastructureFailures?: number;
  pod?: { name: string; node?: string };
  parameters?: Record<string, string>;
  lastResult?: Record<string, string>;
  lastResultTime?: string;
  iteration?: number;
  bestValue?: string;
  bestText?: string;
  checkpoint?: { step: number; uri: string };
  usage?: { podSeconds: number; gpuSeconds: number };
  lastAttempt?: {
    attempt: number;
    reason: string;
    message?: string;
    exitCode?: number;
    logTail?: string;
  };
  conditions?: Condition[];
}

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}
