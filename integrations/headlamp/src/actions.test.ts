// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { Action, EXPERIMENT_ACTIONS, TRIAL_ACTIONS } from './actions';
import { ExperimentManifest } from './api';
import { findGolden, listActionTests, listMenuTests } from './testdata';

/** What the API server makes of a merge patch (RFC 7386). */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) {
    return patch;
  }
  const merged: Record<string, unknown> = { ...(target as Record<string, unknown> | undefined) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      delete merged[key];
    } else {
      merged[key] = mergePatch(merged[key], value);
    }
  }
  return merged;
}

function perform<Manifest, Spec>(
  actions: Action<Manifest, Spec>[],
  name: string,
  manifest: Manifest
) {
  const action = actions.find(each => each.name === name);
  expect(action).toBeDefined();
  return mergePatch(manifest, { spec: action?.buildSpec(manifest) });
}

function listOffered<Manifest, Spec>(actions: Action<Manifest, Spec>[], manifest: Manifest) {
  return actions.filter(action => action.isOffered(manifest)).map(action => action.name);
}

describe('an experiment', () => {
  it.each(listMenuTests('Experiment'))(
    'offers what Argo CD offers: $path',
    ({ manifest, offered }) => {
      expect(listOffered(EXPERIMENT_ACTIONS, manifest)).toEqual(offered);
    }
  );

  it.each(listActionTests('Experiment'))(
    'is asked for what Argo CD asks for: $action, $path',
    ({ action, before, after }) => {
      expect(perform(EXPERIMENT_ACTIONS, action, before)).toEqual(after);
    }
  );

  it('goes on once more, and forgets what the last request said of its trials', () => {
    const manifest = findGolden('Experiment', 'digits');
    manifest.spec.resume = { id: '7', errored: 'Resume', finished: 'Restart' };
    const changed = perform(EXPERIMENT_ACTIONS, 'resume', manifest) as ExperimentManifest;
    expect(changed.spec.resume).toEqual({ id: '8' });
  });

  it('goes on though somebody has chosen a word as id', () => {
    const manifest = findGolden('Experiment', 'digits');
    manifest.spec.resume = { id: 'after-lunch' };
    const changed = perform(EXPERIMENT_ACTIONS, 'resume', manifest) as ExperimentManifest;
    expect(changed.spec.resume).toEqual({ id: '1' });
  });

  it('says before a suspension whether progress is lost', () => {
    const [suspend] = EXPERIMENT_ACTIONS;
    const manifest = findGolden('Experiment', 'suspend');
    expect(suspend?.explain(manifest)).toMatch(/stores a checkpoint/);
    delete manifest.spec.checkpoints?.store;
    expect(suspend?.explain(manifest)).toMatch(/start from scratch/);
  });
});

describe('a trial', () => {
  it.each(listMenuTests('Trial'))('offers what Argo CD offers: $path', ({ manifest, offered }) => {
    expect(listOffered(TRIAL_ACTIONS, manifest)).toEqual(offered);
  });

  it.each(listActionTests('Trial'))(
    'is asked for what Argo CD asks for: $action, $path',
    ({ action, before, after }) => {
      expect(perform(TRIAL_ACTIONS, action, before)).toEqual(after);
    }
  );
});
