/** Objects for the tests: those of Argo CD's tests, and those that an operator has written on a real cluster. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { ExperimentManifest, TrialManifest } from './api';

const REPOSITORY = findRepository(__dirname);
const CUSTOMIZATIONS = join(REPOSITORY, 'integrations/argo-cd/resource_customizations/podtune.dev');
const RELEASES = join(REPOSITORY, 'tests/golden/releases');

/** `make headlamp` copies the sources to a folder of the repository that is further down. */
function findRepository(folder: string): string {
  return existsSync(join(folder, 'pyproject.toml')) ? folder : findRepository(dirname(folder));
}

interface HealthTests {
  tests: { inputPath: string; healthStatus: { status: string; message: string } }[];
}

interface ActionTests {
  discoveryTests: { inputPath: string; result: { name: string; disabled: boolean }[] }[];
  actionTests: { action: string; inputPath: string; expectedOutputPath: string }[];
}

type Kind = 'Experiment' | 'Trial';
type ManifestOf<K extends Kind> = K extends 'Experiment' ? ExperimentManifest : TrialManifest;

function readYaml<T>(...parts: string[]): T {
  return parse(readFileSync(join(CUSTOMIZATIONS, ...parts), 'utf-8')) as T;
}

/** What Argo CD's health check says of each state. */
export function listHealthTests<K extends Kind>(kind: K) {
  return readYaml<HealthTests>(kind, 'health_test.yaml').tests.map(test => ({
    path: test.inputPath,
    manifest: readYaml<ManifestOf<K>>(kind, test.inputPath),
    ...test.healthStatus,
  }));
}

/** Which actions Argo CD's menu offers in a state, by name. */
export function listMenuTests<K extends Kind>(kind: K) {
  return readYaml<ActionTests>(kind, 'actions/action_test.yaml').discoveryTests.map(test => ({
    path: test.inputPath,
    manifest: readYaml<ManifestOf<K>>(kind, 'actions', test.inputPath),
    offered: test.result.filter(entry => !entry.disabled).map(entry => entry.name),
  }));
}

/** What Argo CD's actions make of an object. */
export function listActionTests<K extends Kind>(kind: K) {
  return readYaml<ActionTests>(kind, 'actions/action_test.yaml').actionTests.map(test => ({
    path: test.inputPath,
    action: test.action,
    before: readYaml<ManifestOf<K>>(kind, 'actions', test.inputPath),
    after: readYaml<ManifestOf<K>>(kind, 'actions', test.expectedOutputPath),
  }));
}

/** All objects of a kind that a release has kept. */
export function readGolden<K extends Kind>(kind: K): ManifestOf<K>[] {
  return readdirSync(RELEASES).flatMap(release =>
    readFileSync(join(RELEASES, release, `${kind.toLowerCase()}s.jsonl`), 'utf-8')
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line) as ManifestOf<K>)
  );
}

/** The kept object of that name, in the first state for which the condition holds. */
export function findGolden<K extends Kind>(
  kind: K,
  name: string,
  matches: (manifest: ManifestOf<K>) => boolean = () => true
): ManifestOf<K> {
  const found = readGolden(kind).find(each => each.metadata.name === name && matches(each));
  if (found === undefined) {
    throw new Error(`no ${kind} ${name} among the kept objects`);
  }
  return found;
}
