// Fields are checked twice, as traits are: by the manifests before anything runs, and by what data
// and model really give.
#pragma once

#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/experiment/experiment.h"

namespace attnlab {

/// Compares opened data and a built model with what the manifests say of them.
/// @param outputs  Model::outputs(); empty: not known, and not compared
/// @throws PluginError where a plugin gives other than its manifest says; DataError where these
/// data
///         lack a field that the model or the task takes.
void check_given(const Experiment& experiment, const DatasetInfo& data,
                 const std::vector<FieldInfo>& outputs, const Catalogue& catalogue);

}  // namespace attnlab
