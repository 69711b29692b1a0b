// attnlab suite pack: results in one file. (reproduce.cpp runs them again elsewhere.)
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/runs/run_records.h"
#include "framework/runs/run_search.h"
#include "framework/sharing/result_bundle.h"
#include "runner/sharing/data_paths.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

/// A name that a bundle's id may have, made of a folder's.
std::string name_from(const std::string& folder) {
  std::string name = fs::absolute(folder).lexically_normal().filename().string();
  if (name.empty())
    name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) != 0 && byte < 0x80 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  if (name.empty() || std::islower(static_cast<unsigned char>(name[0])) == 0) name = "r_" + name;
  return name.substr(0, 64);
}

/// What whoever gets the result must know of its data; empty: nothing.
std::string note_on_data(const std::string& folder) {
  std::set<std::string> paths;
  for (const std::string& run : search_folders(folder).runs) {
    try {
      paths.merge(data_paths(read_run(run).config.tree()));
    } catch (const Error&) {  // damaged: it is not packed
    }
  }
  if (paths.empty()) return "";
  return fmt::format("the runs read {}; on another machine: attnlab reproduce FILE --data {}=YOURS",
                     join({paths.begin(), paths.end()}, ", "), *paths.begin());
}

}  // namespace

int suite_pack_command(const Words& words) {
  Usage usage;
  usage.synopsis =
      "attnlab suite pack DIR [--lab LAB] [--name NAME] [--version V] [--out DIR]\n"
      "       [--checkpoints] [--unsigned]";
  usage.about =
      "Writes NAME-VERSION.attnlab: configurations, locks, metrics and tables of the runs in\n"
      "DIR, and the bundles of the plugins and the Python files that they used; signed, if\n"
      "there is a key of LAB. attnlab reproduce runs it elsewhere. Data are not in it, and\n"
      "checkpoints only with --checkpoints.";
  usage.options.add_options()("lab", po::value<std::string>()->value_name("LAB"), "who packs it")(
      "name", po::value<std::string>()->value_name("NAME"),
      "name of the result; default: DIR's own name")(
      "version", po::value<std::string>()->value_name("V")->default_value("1.0.0"),
      "of the result")("out", po::value<std::string>()->value_name("DIR")->default_value("."),
                       "folder that the file is written to")(
      "checkpoints", "also include the runs' trained weights")(
      "unsigned", "do not sign, although there is a key");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  const sharing::Keyring keys(places.keys());
  const std::string folder = arguments.words[0];
  sharing::ResultFiles result =
      result_files(folder, sharing::Store(places), arguments.has("checkpoints"));
  for (const std::string& note : result.notes) say("note: " + note);
  const std::string data = note_on_data(folder);
  if (!data.empty()) say("note: " + data);
  sharing::Contents contents;
  contents.type = "result";
  contents.id =
      sharing::parse_id(lab_of(arguments, keys) + "/" + arguments.text("name", name_from(folder)));
  contents.version = arguments.text("version", "");
  sharing::check_version(contents.version);
  contents.summary = "results of " + name_from(folder);
  contents.attnlab = ATTNLAB_VERSION;
  const std::string lab = contents.id.lab;
  std::string bytes;
  if (keys.has_secret(lab) && !arguments.has("unsigned")) {
    const sharing::SecretKey key =
        keys.secret(lab, keys.secret_is_encrypted(lab) ? password_for("password of the key") : "");
    bytes = write_bundle(contents, result.files, sharing::Signer{&key, keys.own_card(lab)});
    say("signed with key " + key.public_key().id_text());
  } else {
    bytes = write_bundle(contents, result.files, std::nullopt);
    say("not signed");
  }
  const std::string path = arguments.text("out", ".") + "/" + bundle_name(contents);
  write_file(path, bytes);
  std::cout << path << "\n";
  return kDone;
}

}  // namespace attnlab
