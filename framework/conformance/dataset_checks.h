// One function a check of `kDatasetChecks`. Each throws Failure, NotApplicable or Skipped, and
// returns a remark, mostly an empty one. What they do: docs/conformance.md.
#pragma once

#include "framework/conformance/dataset_fixture.h"

namespace attnlab::conformance {

// dataset_description.cpp
std::string check_splits(const DatasetFixture& fixture);
std::string check_description(const DatasetFixture& fixture);
std::string check_cost(const DatasetFixture& fixture);

// dataset_conduct.cpp
std::string check_example_determinism(const DatasetFixture& fixture);
std::string check_augmentation(const DatasetFixture& fixture);
std::string check_ownership(const DatasetFixture& fixture);
std::string check_threads(const DatasetFixture& fixture);
std::string check_fingerprint(const DatasetFixture& fixture);
std::string check_dataset_process_state(const DatasetFixture& fixture);
std::string check_dataset_memory(const DatasetFixture& fixture);

// dataset_batches.cpp
std::string check_collate(const DatasetFixture& fixture);
std::string check_resident(const DatasetFixture& fixture);
std::string check_plan(const DatasetFixture& fixture);

// dataset_damage.cpp
std::string check_damage(const DatasetFixture& fixture);

}  // namespace attnlab::conformance
