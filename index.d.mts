// SPDX-License-Identifier: Apache-2.0

import * as glovebox from './index.js';

export * from './index.js';
export default glovebox;
