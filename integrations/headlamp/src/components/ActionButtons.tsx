import { clusterAction } from '@kinvolk/headlamp-plugin/lib';
import {
  ActionButton,
  AuthVisible,
  ConfirmDialog,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { useState } from 'react';
import { Action } from '../actions';
import { Experiment, Trial } from '../resources';

interface ActionButtonsProps<Manifest, Spec> {
  item: (Experiment | Trial) & { manifest: Manifest };
  actions: Action<Manifest, Spec>[];
}

/** A button for each action that would change something, for those who may patch the object. */
export function ActionButtons<Manifest, Spec>({
  item,
  actions,
}: ActionButtonsProps<Manifest, Spec>) {
  const [asked, setAsked] = useState<Action<Manifest, Spec> | null>(null);
  const name = item.getName();

  function perform(action: Action<Manifest, Spec>) {
    const patch = { spec: action.buildSpec(item.manifest) };
    const verb = action.label.toLowerCase();
    clusterAction(() => item.patch(patch), {
      startMessage: `Asking to ${verb} ${name}…`,
      cancelledMessage: `${name} stays as it is.`,
      successMessage: `Asked to ${verb} ${name}.`,
      errorMessage: `Could not ${verb} ${name}.`,
    });
  }

  return (
    <AuthVisible item={item} authVerb="patch">
      {actions
        .filter(action => action.isOffered(item.manifest))
        .map(action => (
          <ActionButton
            key={action.name}
            description={action.label}
            icon={action.icon}
            onClick={() => setAsked(action)}
          />
        ))}
      {asked && (
        <ConfirmDialog
          open
          title={`${asked.label} ${name}?`}
          description={asked.explain(item.manifest)}
          confirmLabel={asked.label}
          cancelLabel="Cancel"
          handleClose={() => setAsked(null)}
          onConfirm={() => perform(asked)}
        />
      )}
    </AuthVisible>
  );
}
