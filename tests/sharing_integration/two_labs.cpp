#include "tests/sharing_integration/two_labs.h"

#include <filesystem>
#include <fstream>

#include "framework/base/files.h"
#include "framework/manifest/manifest.h"

namespace attnlab::testing {

namespace fs = std::filesystem;

LabMachine::LabMachine(std::string prefix, std::string home)
    : prefix_(std::move(prefix)), home_(std::move(home)) {
  fs::create_directories(home_);
}

Invocation LabMachine::invocation(Words words, const Environment& more,
                                  const std::string& folder) const {
  words.insert(words.begin(), prefix_ + "/bin/attnlab");
  Environment environment = {{"HOME", home_}, {"ATTNLAB_PLUGIN_PATH", ""}};
  if (const std::string torch = ATTNLAB_TEST_LIBTORCH; !torch.empty()) {
    environment["LibTorch_ROOT"] = torch;
  }
  for (const auto& [name, value] : more) environment[name] = value;
  return {std::move(words), folder.empty() ? home_ : folder, environment};
}

Ended LabMachine::attnlab(Words words, const Environment& more, const std::string& folder) const {
  return run(invocation(std::move(words), more, folder));
}

Ended LabMachine::must(const Words& words, const std::string& folder) const {
  Ended ended = attnlab(words, {}, folder);
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  return ended;
}

void LabMachine::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(at(name)).parent_path());
  std::ofstream(at(name), std::ios::binary) << text;
}

WebServer::WebServer(const std::string& folder, const std::string& scratch) {
  const std::string port = scratch + "/port";
  const std::string script =
      "import http.server, functools, os, sys\n"
      "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n"
      "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n"
      "open(sys.argv[2] + '.new', 'w').write(str(server.server_address[1]))\n"
      "os.rename(sys.argv[2] + '.new', sys.argv[2])\n"
      "server.serve_forever()\n";
  process_ = std::make_unique<Process>(Invocation{{"python3", "-c", script, folder, port}});
  EXPECT_TRUE(wait_for([&] { return fs::exists(port) || !process_->running(); }));
  url_ = "http://127.0.0.1:" + file_text(port);
}

void OneInstallation::SetUpTestSuite() {
  prefix_ = new TempFolder();
  const Ended ended = run({{ATTNLAB_TEST_CMAKE, "--install", build_tree(), "--prefix", prefix()}});
  ASSERT_EQ(ended.exit_code, 0) << ended.story();
}

void OneInstallation::TearDownTestSuite() {
  delete prefix_;
  prefix_ = nullptr;
}

OneInstallation::OneInstallation() : lab_(prefix(), home_ / "home") {
  lab_.write(".config/attnlab/policy.yaml", "unsigned: allow\nfirst_use: allow\n");
}

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string bytes = file_text(path.string());
  bool changed = false;
  for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size()) {
    bytes.replace(at, from.size(), to);
    changed = true;
  }
  if (changed) std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TwoInstallations::TwoInstallations() {
  const Ended ended = run({{ATTNLAB_TEST_CMAKE, "--install", build_tree(), "--prefix", first()}});
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  fs::copy(first(), second(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  for (const auto& file : fs::recursive_directory_iterator(second() + "/lib")) {
    if (file.is_regular_file() && !file.is_symlink()) fit_to_second(file.path().string());
  }
}

void TwoInstallations::fit_to_second(const std::string& library) const {
  // Another hash of the public headers is another build: neither takes what the other made.
  const std::string hash = read_stamp(first() + "/lib/libattnlab.so").at("sdk");
  replace_in(library, hash, std::string(hash.rbegin(), hash.rend()));
}

}  // namespace attnlab::testing
