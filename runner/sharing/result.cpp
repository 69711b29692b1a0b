// attnlab suite pack and attnlab reproduce: results in one file, and the same again elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "framework/sharing/result_bundle.h"
#include "runner/process.h"
#include "runner/sharing/sharing.h"
#include "runner/sharing/workshop.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using nlohmann::json;

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

/// The lab that packs: named, or the only one with a key here.
std::string lab_of(const Arguments& arguments, const sharing::Keyring& keys) {
  if (arguments.has("lab")) return arguments.text("lab", "");
  std::vector<std::string> own;
  for (const sharing::KnownKey& key : keys.keys()) {
    if (keys.has_secret(key.lab) && key.objection().empty()) own.push_back(key.lab);
  }
  if (own.size() == 1) return own.front();
  throw ConfigError("--lab is missing: which lab packs this?");
}

// ---- reproduce

/// What differs between the lock and this machine, before anything is run.
void check_parts(const json& lock, const Catalogue& catalogue) {
  const std::string revision = lock.at("framework").at("revision");
  if (revision != framework_revision()) {
    say(
        fmt::format("the framework differs: revision {} there, {} here; numbers may differ in last "
                    "digits, or more",
                    one_line(revision, 20), framework_revision()));
  }
  for (const json& part : lock.at("parts")) {
    const std::string id = part.at("id"), version = part.at("version"), kind = part.at("kind");
    bool found = false;
    for (const Candidate& candidate : catalogue.candidates()) {
      if (!candidate.manifest || candidate.manifest->id != id || !candidate.refused.empty() ||
          name_of(candidate.manifest->kind) != kind) {
        continue;
      }
      found = true;
      if (candidate.manifest->version != version) {
        say(fmt::format("{} {} differs: version {} there, {} here", kind, id, one_line(version, 50),
                        candidate.manifest->version));
      }
    }
    if (!found) {
      throw PluginError(fmt::format("{} {} {} is not installed, and not in the file", kind,
                                    one_line(id, 100), one_line(version, 50)));
    }
  }
}

void install_plugins(const sharing::Bundle& result, const Arguments& arguments,
                     const sharing::Places& places, sharing::Keyring& keys) {
  WorkshopOptions options;
  options.check_limit = arguments.options["time-limit"].as<double>();
  options.build_limit = 6 * options.check_limit;
  options.say = say;
  Workshop workshop(options);
  const sharing::InstallTools tools = workshop.tools();
  const sharing::Store store(places);
  for (const sharing::ArchiveFile& file : result.files) {
    if (file.path.rfind("plugins/", 0) != 0) continue;
    sharing::InstallOptions install;
    install.policy = sharing::read_policy(places.policy());
    install.ask = asker(arguments.has("yes"));
    install.allow_downgrade = arguments.has("allow-downgrade");
    install.kit = !arguments.has("no-kit");
    install.say = say;
    const auto one = sharing::install(file.bytes, file.path, store, keys, tools, install);
    say(fmt::format("uses {} ({})", one.label(), one.bundle.substr(0, 12)));
  }
}

/// Every run of the result once more. @returns how many failed.
std::size_t run_all(const std::vector<RunRecord>& runs, const std::string& out) {
  std::size_t failed = 0;
  for (const RunRecord& run : runs) {
    say("running " + run.label());
    const std::string log = fmt::format("{}/log.txt", out);
    const ProcessResult end =
        run_self({"run", run.folder + "/config.yaml", "--out", out + "/runs", "--progress", "none"},
                 log, [](const std::string&) {});
    if (interrupted()) throw Error("interrupted; the same command goes on where it was");
    if (end.ok()) continue;
    ++failed;
    say(fmt::format("{} failed: {}", run.label(), log_tail(log, 3)));
  }
  return failed;
}

void note_data(const std::vector<RunRecord>& there, const std::vector<RunRecord>& here) {
  std::map<std::string, std::string> known;
  for (const RunRecord& run : there) {
    const auto data = run.environment.find("data.fingerprint");
    if (data != run.environment.end()) known[run.label()] = data->second;
  }
  for (const RunRecord& run : here) {
    const auto data = run.environment.find("data.fingerprint");
    const auto before = known.find(run.label());
    if (data == run.environment.end() || before == known.end() || data->second == before->second) {
      continue;
    }
    say(fmt::format("{}: its data differ from those there", run.label()));
  }
}

/// The files of a result below a folder; as they are where the same were unpacked before.
void unpack(const sharing::Bundle& result, const std::string& folder) {
  std::error_code error;
  const std::string mark = folder + "/bundle.sha256";
  if (fs::exists(mark, error) && read_text(mark) == result.sha256) return;
  if (fs::exists(folder, error)) {
    throw ConfigError(
        fmt::format("{}: holds something else; name another folder with --out", folder));
  }
  sharing::make_folder(folder);
  sharing::write_files(result.files, folder);
  write_file(mark, result.sha256);
}

Usage reproduce_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab reproduce FILE [--out DIR] [--yes] [--no-kit] [--allow-downgrade]\n"
      "       [--time-limit SECONDS]";
  usage.about =
      "Runs what another lab packed with attnlab suite pack: installs the plugins that come with "
      "it\n"
      "(checked as by attnlab plugin install), runs every configuration, and prints both results "
      "side\n"
      "by side, with a verdict by the seeds' spread. Finished runs are not run again.\n"
      "Exit code 0: all agree; 1: a result differs; 3: some could not be run.";
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"),
                              "where it runs; reproduced/NAME unless given")(
      "yes,y", "answer every question with yes")("no-kit", "leave the conformance kit out")(
      "allow-downgrade", "take older versions of installed plugins")(
      "time-limit", po::value<double>()->value_name("SECONDS")->default_value(300),
      "of one check of a plugin; a build has 6 times as long");
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

}  // namespace

int suite_pack_command(const Words& words) {
  Usage usage;
  usage.synopsis =
      "attnlab suite pack DIR [--lab LAB] [--name NAME] [--version V] [--out DIR]\n"
      "       [--checkpoints] [--unsigned]";
  usage.about =
      "Writes NAME-VERSION.attnlab: configurations, locks, metrics and tables of the runs in DIR, "
      "and\n"
      "the bundles of the plugins that they used; signed, where there is a key of LAB. attnlab\n"
      "reproduce runs it elsewhere. Checkpoints and data are not in it, unless asked for.";
  usage.options.add_options()("lab", po::value<std::string>()->value_name("LAB"), "who packs it")(
      "name", po::value<std::string>()->value_name("NAME"), "DIR's own name unless given")(
      "version", po::value<std::string>()->value_name("V")->default_value("1.0.0"),
      "of the result")("out", po::value<std::string>()->value_name("DIR")->default_value("."),
                       "folder that the file is written to")(
      "checkpoints", "put in what the runs learned, too")("unsigned",
                                                          "do not sign, although there is a key");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Places places = sharing::Places::of_this_user();
  const sharing::Keyring keys(places.keys());
  const std::string folder = arguments.words[0];
  sharing::ResultFiles result =
      result_files(folder, sharing::Store(places), arguments.has("checkpoints"));
  for (const std::string& note : result.notes) say("note: " + note);
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

int reproduce_command(const Words& words) {
  Usage usage = reproduce_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const sharing::Bundle result = sharing::read_bundle(arguments.words[0]);
  if (result.contents.type != "result") {
    throw ConfigError(fmt::format("{}: holds a plugin, no result; attnlab plugin install FILE",
                                  arguments.words[0]));
  }
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  sharing::InstallOptions trust;
  trust.policy = sharing::read_policy(places.policy());
  trust.ask = asker(arguments.has("yes"));
  check_trust(result, keys, trust);
  const std::string out = arguments.text("out", "reproduced/" + result.contents.id.name);
  const std::string original = fs::absolute(out + "/original").string();
  sharing::make_folder(out);
  unpack(result, original);
  const RunCollection there = find_runs({original + "/runs"});
  install_plugins(result, arguments, places, keys);
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const RunRecord& run : there.runs) {
    std::error_code error;
    const std::string lock = run.folder + "/lock.json";
    if (fs::exists(lock, error)) check_parts(json::parse(read_text(lock)), catalogue);
  }
  const std::size_t failed = run_all(there.runs, fs::absolute(out).string());
  if (failed == there.runs.size()) {
    throw Error("no run could be repeated; the log: " + out + "/log.txt");
  }
  const RunCollection here = find_runs({out + "/runs"});
  note_data(there.runs, here.runs);
  const auto all = sharing::compare_results(there.runs, here.runs);
  const std::string table = reproduction_text(all);
  write_file(out + "/reproduction.txt", table);
  std::cout << printable(table);
  const bool agree =
      std::all_of(all.begin(), all.end(), [](const auto& one) { return one.agrees(); });
  if (failed > 0) return kIncomplete;
  return agree ? kDone : kRunFailed;
}

}  // namespace attnlab
