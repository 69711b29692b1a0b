// A bundle for tests: a plugin of two small files.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "framework/sharing/bundle.h"

namespace attnlab::testing {

inline sharing::Contents made_contents(const std::string& id = "acme/sharp",
                                       const std::string& version = "1.0.0") {
  sharing::Contents contents;
  contents.type = "plugin";
  contents.id = sharing::parse_id(id);
  contents.version = version;
  contents.kind = "attention";
  contents.summary = "made up";
  contents.citation = "nobody, 2026";
  contents.licence = "Apache-2.0";
  contents.attnlab = "0.1.0";
  return contents;
}

inline std::vector<sharing::ArchiveFile> made_files() {
  return {{"source/CMakeLists.txt", "project(sharp)\n", false},
          {"source/sharp.cpp", "int sharp = 1;\n", false},
          {"source/check.sh", "#!/bin/sh\n", true}};
}

inline std::vector<sharing::ArchiveFile> sorted_files(std::vector<sharing::ArchiveFile> files) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

/// A lab with a key of its own.
struct Lab {
  explicit Lab(const std::string& name, const std::string& expires = sharing::kNever)
      : key(sharing::SecretKey::make()),
        card{name, key.public_key(), "2026-01-01", expires},
        text(write_key_card(card, key)) {}
  sharing::Signer signer() const { return {&key, text}; }

  sharing::SecretKey key;
  sharing::KeyCard card;
  std::string text;
};

inline std::string signed_bundle(const Lab& lab, const std::string& version = "1.0.0") {
  return write_bundle(made_contents(lab.card.lab + "/sharp", version), made_files(), lab.signer());
}

}  // namespace attnlab::testing
