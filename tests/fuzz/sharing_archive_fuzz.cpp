// Fuzzes the reader of bundles: archive, content list, seal. Whatever the bytes, the answer is a
// bundle whose paths stay below a folder, or a BundleError or TrustError that can be shown.
// Code: framework/sharing/archive.cpp framework/sharing/bundle.cpp
// Code: framework/sharing/content_list.cpp
#include "framework/base/foreign_text.h"
#include "framework/sharing/bundle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::fuzz {
namespace {

using sharing::ArchiveFile;

/// With the archive's own hash in the seal, so that changes reach the archive's reader.
void seal_again(std::string& input) {
  const std::size_t text = input.rfind("attnlab bundle 1\n");
  if (text == std::string::npos || text < 8) return;
  const std::string archive = input.substr(0, text - 8);
  try {
    const std::string whole = sharing::sealed(archive);
    input = whole;
  } catch (const Error&) {
    // left as it is
  }
}

std::string unsigned_bundle(const std::string& version) {
  return write_bundle(testing::made_contents("acme/sharp", version), testing::made_files(), {});
}

}  // namespace

Target target() {
  const testing::Lab acme("acme");
  const std::string whole = unsigned_bundle("1.0.0");
  Target target;
  target.seeds = {
      whole,
      unsigned_bundle("2.0.0-beta1"),
      signed_bundle(acme),
      whole.substr(0, whole.size() / 2),
      sharing::write_archive({{"a", "b"}}),
      sharing::sealed(sharing::write_archive({{"bundle.json", std::string(5000, '[')}})),
      ""};
  target.words = {"../",
                  "ustar",
                  "attnlab bundle 1\n",
                  "\x28\xb5\x2f\xfd",
                  "archive ",
                  std::string(512, '\0'),
                  "source/",
                  "0000644"};
  target.repair = seal_again;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto shown = [](const Error& error) {
    const std::string what = error.what();
    if (printable(what) != what) fuzz::fail("an error that cannot be shown: " + what);
    return -1;
  };
  try {
    const sharing::Bundle bundle = sharing::parse_bundle(bytes);
    for (const sharing::ArchiveFile& file : bundle.files) {
      if (file.path.find("..") != std::string::npos && file.path.find("../") != std::string::npos) {
        fuzz::fail("a path that leaves its folder: " + file.path);
      }
      sharing::check_path(file.path);
    }
    return 0;
  } catch (const sharing::BundleError& error) {
    return shown(error);
  } catch (const sharing::TrustError& error) {
    return shown(error);
  }
}
