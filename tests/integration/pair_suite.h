// A suite of four runs, two attentions and two seeds, and the processes that run it.
#pragma once

#include <filesystem>
#include <map>
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing {

class PairSuite : public Workspace {
 protected:
  PairSuite() {
    folder_.write("pair.yaml",
                  "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n"
                  "seeds: [0, 1]\n");
  }

  /// A suite of four runs; each takes some seconds with `epochs=400`.
  static Words suite(const Words& more, int epochs = 2) {
    Words words = {"suite", "pair.yaml", "set.train.epochs=" + std::to_string(epochs)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string folder_of(const std::string& attention, int seed,
                        const std::string& suite = "pair") const {
    return run_folder(suite + "/tiny/" + attention, seed);
  }

  /// The processes that run cells of this workspace, by their run's folder as on their command
  /// line.
  std::map<std::string, pid_t> running() const {
    std::map<std::string, pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::error_code error;
      if (std::filesystem::read_symlink(entry.path() / "cwd", error) !=
          std::filesystem::path(folder_.path()))
        continue;
      std::istringstream words(file_text(entry.path() / "cmdline"));
      Words all;
      for (std::string word; std::getline(words, word, '\0');) all.push_back(word);
      if (all.size() > 2 && all[1] == "run") found[all[2]] = std::stoi(name);
    }
    return found;
  }
};

}  // namespace attnlab::testing
