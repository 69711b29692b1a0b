// Runs on this machine: processes side by side, the cores divided among them.
#pragma once

#include "runner/launcher.h"

namespace attnlab {

class LocalLauncher final : public Launcher {
 public:
  /// Returns early, without an error, when SIGINT or SIGTERM came (`interrupted()`).
  void launch(const std::vector<LaunchedCell>& cells, const LaunchOptions& options,
              ProgressSink& progress) override;
  bool waits() const override { return true; }
};

}  // namespace attnlab
