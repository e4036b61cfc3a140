/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_PLAN_H_
#define SRC_BINDING_PLAN_H_

#include "binding/node_addon.h"

namespace gbx {

/* describeBox(): what every box has beside its root, from the tables that make
 * it. */
Napi::Value DescribeBox(const Napi::CallbackInfo& info);

/* readSpec(buffer): a spec file as the objects that lib/plan.js wants. */
Napi::Value ReadSpec(const Napi::CallbackInfo& info);

}  // namespace gbx

#endif  // SRC_BINDING_PLAN_H_
