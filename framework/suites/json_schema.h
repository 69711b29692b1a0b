// JSON Schemas (draft 2020-12) of the files that people write: editors complete and check by them.
#pragma once

#include <string>
#include <vector>

#include "framework/manifest/discovery.h"

namespace attnlab {

/// Kinds of files that have a schema: "experiment", "suite", "base" (a part of an experiment, for
/// others to extend), and "model", "attention", "task", "dataset" (what stands below that key).
const std::vector<std::string>& schema_kinds();

/// The schema of one kind of file. Knows every option of every usable plugin with type, range,
/// choices, default and help; `key+`, `key-`, `extends`, references and `???` stand where
/// composition allows them.
/// A Python file may stand where a name does; of those that `compositions` name it knows the
/// options, too.
/// @throws ConfigError for an unknown kind.
std::string json_schema(const std::string& kind, const Catalogue& catalogue,
                        const std::vector<Node>& compositions = {});

}  // namespace attnlab
