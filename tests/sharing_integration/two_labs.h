// Two labs: acme, which publishes, and borealis, whose attnlab is another build.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/workspace.h"

namespace attnlab::testing {

/// A lab's home folder, installation and the program in it.
class LabMachine {
 public:
  /// @param prefix  of its attnlab
  LabMachine(std::string prefix, std::string home);

  /// attnlab with these words, in a folder; its home unless given.
  Invocation invocation(Words words, const Environment& more = {},
                        const std::string& folder = "") const;
  Ended attnlab(Words words, const Environment& more = {}, const std::string& folder = "") const;
  /// The same; must end with 0.
  Ended must(const Words& words, const std::string& folder = "") const;
  const std::string& home() const { return home_; }
  std::string plugins() const { return home_ + "/.local/share/attnlab/plugins"; }
  std::string at(const std::string& name) const { return home_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string prefix_, home_;
};

/// Puts another text of the same length in the place of one, wherever it stands in a file.
void replace_in(const std::filesystem::path& path, const std::string& from, const std::string& to);

/// A web server on the loopback address, for one folder.
class WebServer {
 public:
  explicit WebServer(const std::string& folder, const std::string& scratch);
  const std::string& url() const { return url_; }

 private:
  std::unique_ptr<Process> process_;
  std::string url_;
};

/// Tests with one installation, made once for all of them, and a lab that lets in what is unsigned.
class OneInstallation : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  OneInstallation();
  static std::string prefix() { return prefix_->path(); }

  TempFolder home_;  ///< of the labs' homes and of what lies beside them
  LabMachine lab_;

 private:
  inline static TempFolder* prefix_ = nullptr;
};

/// What all tests of a file share, made once: an installation, and another one that refuses what
/// the first built, and the other way round.
struct TwoInstallations {
  TwoInstallations();
  std::string first() const { return folder / "first"; }
  std::string second() const { return folder / "second"; }
  /// Makes a library that the first one built into one that the second one would have.
  void fit_to_second(const std::string& library) const;
  TempFolder folder;
};

}  // namespace attnlab::testing
