/** Experiments and Trials as Headlamp's objects: it lists, watches and patches them with the user's own rights. */
import { KubeObject, KubeObjectInterface } from '@kinvolk/headlamp-plugin/lib/K8s/cluster';
import { ExperimentManifest, GROUP, TrialManifest, VERSION } from './api';

export const EXPERIMENT_LIST = 'podtune-experiments';
export const EXPERIMENT_DETAILS = 'podtune-experiment';
export const TRIAL_LIST = 'podtune-trials';
export const TRIAL_DETAILS = 'podtune-trial';

export class Experiment extends KubeObject<KubeObjectInterface> {
  static kind = 'Experiment';
  static apiName = 'experiments';
  static apiVersion = `${GROUP}/${VERSION}`;
  static isNamespaced = true;

  static get detailsRoute() {
    return EXPERIMENT_DETAILS;
  }

  static get listRoute() {
    return EXPERIMENT_LIST;
  }

  get manifest(): ExperimentManifest {
    return this.jsonData as KubeObjectInterface & ExperimentManifest;
  }
}

export class Trial extends KubeObject<KubeObjectInterface> {
  static kind = 'Trial';
  static apiName = 'trials';
  static apiVersion = `${GROUP}/${VERSION}`;
  static isNamespaced = true;

  static get detailsRoute() {
    return TRIAL_DETAILS;
  }

  static get listRoute() {
    return TRIAL_LIST;
  }

  get manifest(): TrialManifest {
    return this.jsonData as KubeObjectInterface & TrialManifest;
  }
}
