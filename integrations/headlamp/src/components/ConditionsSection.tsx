import { DateLabel, SectionBox, SimpleTable } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Condition } from '../api';

/** The conditions with their messages, which say what to do. */
export function ConditionsSection({ conditions }: { conditions: Condition[] | undefined }) {
  return (
    <SectionBox title="Conditions">
      <SimpleTable
        data={conditions ?? []}
        emptyMessage="The operator has not looked at it yet."
        columns={[
          { label: 'Condition', getter: (it: Condition) => it.type },
          { label: 'Status', getter: (it: Condition) => it.status },
          { label: 'Reason', getter: (it: Condition) => it.reason },
          { label: 'Message', getter: (it: Condition) => it.message, gridTemplate: '2fr' },
          {
            label: 'Since',
            getter: (it: Condition) =>
              it.lastTransitionTime && <DateLabel date={it.lastTransitionTime} />,
          },
        ]}
      />
    </SectionBox>
  );
}
