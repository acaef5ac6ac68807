/** Writes the templates of the two test systems where `tests/deploy` compares them with template.yaml. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';

import { LonghaulProps } from '../lib';
import { everything, stackWith, usual } from '../test/example';

const folder = join(__dirname, '..', 'templates');
mkdirSync(folder, { recursive: true });
const systems: Record<string, (stack: Stack) => LonghaulProps> = { usual, everything };
for (const [name, props] of Object.entries(systems)) {
  // The constructs' paths say which resource of template.yaml is meant.
  const app = new App({ context: { 'aws:cdk:enable-path-metadata': true } });
  const template = Template.fromStack(stackWith(props, app)).toJSON();
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(template, undefined, 1));
}
