#include "framework/manifest/discovery.h"

#include "tests/support/compositions.h"
#include "tests/support/unprivileged.h"

namespace attnlab::discovery_test {
namespace {

using namespace testing;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::vector<std::string> usable_names(const Catalogue& catalogue) {
  std::vector<std::string> names;
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    for (const std::string& name : catalogue.names(kind)) {
      names.push_back(std::string(name_of(kind)) + " " + name);
    }
  }
  return names;
}

const Candidate& candidate_of(const Catalogue& catalogue, const std::string& path) {
  for (const Candidate& candidate : catalogue.candidates()) {
    if (candidate.path == path) return candidate;
  }
  throw std::runtime_error(path + " was not looked at");
}

// ---- where plugins are found

TEST(Catalogue, FindsPluginsInAFolderAndInTheFoldersOfTheirKinds) {
  const TempFolder folder;
  write_plugin(folder, "loose.so", made_manifest(Kind::attention, "loose"));
  write_plugin(folder, "attention/a.so", made_manifest(Kind::attention, "a"));
  write_plugin(folder, "model/m.so", made_manifest(Kind::model, "m"));
  write_plugin(folder, "task/t.so", made_manifest(Kind::task, "t"));
  write_plugin(folder, "dataset/d.so", made_manifest(Kind::dataset, "d"));
  write_plugin(folder, "elsewhere/e.so", made_manifest(Kind::attention, "e"));
  folder.write("notes.txt", "no plugin");
  EXPECT_THAT(usable_names(catalogue_of(folder.path())),
              ElementsAre("attention a", "attention loose", "model m", "task t", "dataset d"));
}

TEST(Catalogue, FindsAPluginByNameAndById) {
  const TempFolder folder;
  const std::string path = write_plugin(folder, "a.so", made_manifest(Kind::attention, "a"));
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_EQ(catalogue.find(Kind::attention, "a").path, path);
  EXPECT_EQ(catalogue.find(Kind::attention, "lab/a").path, path);
}

TEST(Catalogue, SuggestsNearNamesForOneThatIsNotThere) {
  const TempFolder folder;
  write_plugin(folder, "quest.so", made_manifest(Kind::attention, "quest"));
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "qest"); }),
              says({"no attention 'qest'", "'quest'", "attnlab list --explain"}));
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::model, "quest"); }),
              says({"no model 'quest'", "of this kind", "attnlab list --explain"}));
}

TEST(Catalogue, KeepsTheOthersWhenSomeAreRefused) {
  const TempFolder folder;
  folder.write("text.so", "a text file that is called like a library");
  folder.write("none.so", library_with_section(".other", "{}"));
  folder.write("bad.so", library_with_section(kManifestSection, "{}"));
  fs::create_symlink("nowhere", folder / "dangling.so");
  fs::create_directory(folder / "folder.so");
  write_plugin(folder, "good.so", made_manifest(Kind::attention, "good"));
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_THAT(usable_names(catalogue), ElementsAre("attention good"));
  EXPECT_THAT(candidate_of(catalogue, folder / "text.so").refused,
              StartsWith(folder / "text.so" + ": is not an ELF file"));
  EXPECT_THAT(candidate_of(catalogue, folder / "none.so").refused,
              StartsWith(folder / "none.so" + ": has no section .attnlab.manifest"));
  EXPECT_THAT(candidate_of(catalogue, folder / "bad.so").refused,
              StartsWith(folder / "bad.so" + ": invalid manifest: "));
  EXPECT_THAT(candidate_of(catalogue, folder / "dangling.so").refused,
              HasSubstr("No such file or directory"));
  EXPECT_THAT(candidate_of(catalogue, folder / "folder.so").refused, HasSubstr("regular file"));
}

TEST(Catalogue, NamesFoldersThatItCannotRead) {
  const TempFolder folder;
  write_plugin(folder, "good.so", made_manifest(Kind::attention, "good"));
  write_plugin(folder, "model/m.so", made_manifest(Kind::model, "m"));
  const std::string closed = folder / "model";
  fs::permissions(closed, fs::perms::none);
  const auto why = mentions(closed, "Permission denied", "permissions");
  const Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_THAT(usable_names(catalogue), ElementsAre("attention good"));
  EXPECT_THAT(candidate_of(catalogue, closed).refused, why);
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::model, "m"); }), why);
}

TEST(Catalogue, NamesFoldersBelowOneThatItCannotEnter) {
  const TempFolder folder;
  write_plugin(folder, "closed/plugins/good.so", made_manifest(Kind::attention, "good"));
  fs::permissions(folder / "closed", fs::perms::none);
  const Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  const std::string place = folder / "closed/plugins";
  const Catalogue catalogue({{place, "ATTNLAB_PLUGIN_PATH", false}}, kMadeStamp);
  EXPECT_THAT(candidate_of(catalogue, place).refused,
              says({place, "Permission denied", "permissions"}));
}

TEST(Catalogue, RefusesOptionsCalledAsWhatChoosesAPlugin) {
  for (const char* name : {"use", "as"}) {
    const TempFolder folder;
    nlohmann::json manifest = made_manifest(Kind::attention, "good");
    manifest["options"] = {{{"name", name}, {"type", "string"}, {"default", "x"}, {"help", ""}}};
    write_plugin(folder, "good.so", manifest);
    const Catalogue catalogue = catalogue_of(folder.path());
    EXPECT_THAT(candidate_of(catalogue, folder / "good.so").refused,
                mentions(std::string("'") + name + "'", "name of an option"));
    manifest["kind"] = "model";
    write_plugin(folder, "good.so", manifest);
    EXPECT_EQ(candidate_of(catalogue_of(folder.path()), folder / "good.so").refused.empty(),
              std::string(name) == "as")
        << "only attentions have labels";
  }
}

TEST(Catalogue, KeepsTheOrderOfFilesSoManyThatSeveralThreadsReadThem) {
  const TempFolder folder;
  std::vector<std::string> expected;
  for (int i = 100; i < 400; ++i) {
    const std::string name = "p" + std::to_string(i);
    if (i % 7 == 0) {
      folder.write(name + ".so", "a text file that is called like a library");
    } else {
      write_plugin(folder, name + ".so", made_manifest(Kind::attention, name));
    }
    expected.push_back(folder / (name + ".so"));
  }
  const Catalogue catalogue = catalogue_of(folder.path());
  std::vector<std::string> found;
  for (const Candidate& candidate : catalogue.candidates()) {
    found.push_back(candidate.path);
    const std::string name = fs::path(candidate.path).stem();
    if (std::stoi(name.substr(1)) % 7 == 0) {
      EXPECT_THAT(candidate.refused, StartsWith(candidate.path + ": is not an ELF file"));
    } else {
      EXPECT_EQ(candidate.refused, "");
      EXPECT_EQ(candidate.manifest->name, name);
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(Catalogue, BlamesTheUnreadableFileOfThatName) {
  const TempFolder folder;
  folder.write("quest.so", "text");
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "quest"); }),
              StartsWith(folder / "quest.so" + ": is not an ELF file"));
}

// ---- duplicates

TEST(Catalogue, RefusesBothFilesOfOneNameAndShowsBothPaths) {
  const TempFolder first, second;
  const std::string a = write_plugin(first, "a.so", made_manifest(Kind::attention, "a"));
  const std::string b = write_plugin(second, "attention/b.so", made_manifest(Kind::attention, "a"));
  write_plugin(second, "model/a.so", made_manifest(Kind::model, "a"));
  const Catalogue catalogue({{first.path(), "one", true}, {second.path(), "two", true}},
                            kMadeStamp);
  EXPECT_THAT(usable_names(catalogue), ElementsAre("model a")) << "kinds do not collide";
  for (const std::string& path : {a, b}) {
    const Candidate& candidate = candidate_of(catalogue, path);
    EXPECT_THAT(candidate.refused,
                AllOf(StartsWith(path), mentions("'a'", "more than one file", a, b, "rename one")));
  }
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "a"); }),
              AllOf(HasSubstr(a), HasSubstr(b)));
}

TEST(Catalogue, TakesAFileOfThePluginPathInsteadOfTheInstalledOne) {
  const TempFolder built, home, program;
  const std::string own = write_plugin(built, "a.so", made_manifest(Kind::attention, "a"));
  const std::string installed = write_plugin(home, "a.so", made_manifest(Kind::attention, "a"));
  const SearchPlace named{built.path(), "ATTNLAB_PLUGIN_PATH", true};
  const SearchPlace user{home.path(), "user", true}, system{program.path(), "system", true};
  const Catalogue catalogue({named, user, system}, kMadeStamp);
  EXPECT_EQ(catalogue.find(Kind::attention, "a").path, own);
  EXPECT_EQ(catalogue.find(Kind::attention, "a").instead_of, installed);

  const auto refused = [&](const Catalogue& both) {
    return message_of<PluginError>([&] { both.find(Kind::attention, "a"); });
  };
  const SearchPlace project{built.path(), "project", true};
  EXPECT_THAT(refused(Catalogue({project, user}, kMadeStamp)), HasSubstr(installed))
      << "a working folder takes no place by itself";
  write_plugin(program, "a.so", made_manifest(Kind::attention, "a"));
  EXPECT_THAT(refused(Catalogue({named, user, system}, kMadeStamp)), HasSubstr(program.path()));
  std::filesystem::remove(program / "a.so");
  nlohmann::json other = made_manifest(Kind::attention, "a");
  other["id"] = "another/a";
  write_plugin(home, "a.so", other);
  EXPECT_THAT(refused(Catalogue({named, user}, kMadeStamp)), HasSubstr(installed))
      << "another lab's plugin is another plugin";
}

TEST(Catalogue, RefusesOneNameOfTwoLabs) {
  const TempFolder folder;
  nlohmann::json other = made_manifest(Kind::attention, "a");
  other["id"] = "other/a";
  write_plugin(folder, "a.so", made_manifest(Kind::attention, "a"));
  write_plugin(folder, "b.so", other);
  EXPECT_THAT(usable_names(catalogue_of(folder.path())), IsEmpty());
}

TEST(Catalogue, DoesNotCountARefusedFileAsADuplicate) {
  const TempFolder folder;
  nlohmann::json foreign = made_manifest(Kind::attention, "a");
  foreign["stamp"]["compiler"] = "GNU 9";
  write_plugin(folder, "foreign.so", foreign);
  const std::string good = write_plugin(folder, "good.so", made_manifest(Kind::attention, "a"));
  EXPECT_EQ(catalogue_of(folder.path()).find(Kind::attention, "a").path, good);
}

TEST(Catalogue, LetsNoOtherLabsPluginTakeTheNameOfARefusedOne) {
  const TempFolder folder;
  nlohmann::json foreign = made_manifest(Kind::attention, "a");
  foreign["stamp"]["compiler"] = "GNU 9";
  nlohmann::json other = made_manifest(Kind::attention, "a");
  other["id"] = "other/a";
  const std::string refused = write_plugin(folder, "a.so", foreign);
  const std::string good = write_plugin(folder, "b.so", other);
  write_plugin(folder, "model/a.so", made_manifest(Kind::model, "a"));
  const Catalogue catalogue = catalogue_of(folder.path());
  const std::string message =
      message_of<PluginError>([&] { catalogue.find(Kind::attention, "a"); });
  EXPECT_THAT(message, AllOf(StartsWith("attention 'a' may be other/a or lab/a"),
                             mentions("lab/a is refused", "another host", refused)));
  EXPECT_THAT(message, mentions("other/a (", good, "write other/a", "rename", "lab/a"));
  EXPECT_EQ(catalogue.find(Kind::attention, "other/a").path, good);
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "lab/a"); }),
              StartsWith(refused + ": was built for another host: "));
  EXPECT_THAT(usable_names(catalogue), ElementsAre("attention other/a", "model a"));
}

TEST(Catalogue, TakesAFileThatTwoPlacesLeadToOnce) {
  const TempFolder folder;
  write_plugin(folder, "attention/a.so", made_manifest(Kind::attention, "a"));
  fs::create_symlink("a.so", folder / "attention/same.so");
  const Catalogue catalogue({{folder.path(), "one", true}, {folder / "attention", "two", true}},
                            kMadeStamp);
  EXPECT_THAT(usable_names(catalogue), ElementsAre("attention a"));
  EXPECT_EQ(catalogue.candidates().size(), 1u);
}

// ---- search places

TEST(SearchPlaces, ComeInTheOrderPathProjectUserSystem) {
  const TempFolder folder;
  fs::create_directories(folder / "extra");
  const Environment path("ATTNLAB_PLUGIN_PATH",
                         (folder / "extra" + ":" + (folder / "gone") + "::").c_str());
  const Environment home("HOME", folder.path().c_str());
  const auto places = search_places({"/opt/attnlab"});
  std::vector<std::string> shown;
  for (const SearchPlace& place : places) shown.push_back(place.why + " " + place.folder);
  EXPECT_THAT(shown, ElementsAre("ATTNLAB_PLUGIN_PATH " + (folder / "extra"),
                                 "ATTNLAB_PLUGIN_PATH " + (folder / "gone"),
                                 "project " + (fs::current_path() / "plugins").string(),
                                 "user " + (folder / ".local/share/attnlab/plugins"),
                                 "system /opt/attnlab/lib/attnlab/plugins"));
  EXPECT_TRUE(places[0].exists);
  EXPECT_FALSE(places[1].exists);
}

TEST(SearchPlaces, ListAFolderOnce) {
  const TempFolder folder;
  const Environment path("ATTNLAB_PLUGIN_PATH",
                         (folder.path() + ":" + folder.path() + "/").c_str());
  int count = 0;
  for (const SearchPlace& place : search_places({"/opt/attnlab"})) {
    count += place.why == "ATTNLAB_PLUGIN_PATH" ? 1 : 0;
  }
  EXPECT_EQ(count, 1);
}

TEST(Catalogue, SkipsPlacesThatDoNotExist) {
  const Catalogue catalogue({{"/nonexistent-folder", "user", false}}, kMadeStamp);
  EXPECT_THAT(catalogue.candidates(), IsEmpty());
}

TEST(Catalogue, NamesAWrongFolderOfTheVariable) {
  const TempFolder folder;
  folder.write("source/mine.cpp", "");
  fs::create_directories(folder / "empty");
  const auto said = [](const std::string& path, bool exists) {
    return message_of<PluginError>([&] {
      Catalogue({{path, "ATTNLAB_PLUGIN_PATH", exists}}, kMadeStamp).find(Kind::attention, "mine");
    });
  };
  EXPECT_THAT(said(folder / "gone", false),
              mentions("gone:", "no such folder", "ATTNLAB_PLUGIN_PATH"));
  EXPECT_THAT(said(folder / "source", true), mentions("source:", "no plugins", "attention/"));
  EXPECT_THAT(said(folder / "empty", true), Not(HasSubstr("correct ATTNLAB_PLUGIN_PATH")));
}

// ---- real plugins

TEST(Installation, OfThisProgramHoldsTheLibraryAndThePlugins) {
  const Installation here = Installation::of_this_program();
  EXPECT_TRUE(fs::exists(here.library()));
  EXPECT_TRUE(fs::is_directory(here.plugins()));
}

TEST(Catalogue, OfThisProgramFindsEveryPluginOfThisIssueAndRefusesNone) {
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const Candidate& candidate : catalogue.candidates()) {
    EXPECT_EQ(candidate.refused, "") << candidate.path;
  }
  EXPECT_THAT(catalogue.names(Kind::attention), ::testing::IsSupersetOf({"standard", "quest"}));
  EXPECT_THAT(catalogue.names(Kind::model), ::testing::Contains("vit"));
  EXPECT_THAT(catalogue.names(Kind::task), ::testing::Contains("image_classification"));
  EXPECT_THAT(catalogue.names(Kind::dataset),
              ::testing::IsSupersetOf({"idx_images", "cifar", "synthetic_images"}));
}

TEST(Catalogue, WithAFileHasItInThePlaceOfTheOneOfItsName) {
  const TempFolder folder;
  const std::string copy = folder / "mine.so";
  fs::copy_file(Catalogue::of_this_program().find(Kind::attention, "quest").path, copy);
  const Catalogue catalogue = Catalogue::with_file(copy);
  EXPECT_EQ(catalogue.find(Kind::attention, "quest").path, copy);
  EXPECT_EQ(catalogue.names(Kind::attention), Catalogue::of_this_program().names(Kind::attention));
}

TEST(Catalogue, OfThisProgramHasNoModelThatIsDeepWithoutEnd) {
  const Catalogue catalogue = Catalogue::of_this_program();
  int options = 0;
  for (const Candidate* plugin : catalogue.usable(Kind::model)) {
    for (const OptionSpec& option : plugin->manifest->options) {
      if (option.type != OptionSpec::Type::integer) continue;
      if (option.name.find("depth") == std::string::npos && option.name != "stages") continue;
      ++options;
      EXPECT_LE(option.high.value_or(1e300), 10000) << plugin->manifest->name << ", " << option.name
                                                    << ": its layers are built before they fit";
    }
  }
  EXPECT_GT(options, 8);
}

std::string quest() { return Installation::of_this_program().plugins() + "/attention/quest.so"; }

/// Replaces the manifest in a plugin's bytes by one of at most the same length, in place.
std::string with_manifest(std::string bytes, const std::string& before, ordered_json manifest) {
  const std::size_t at = bytes.find(before);
  if (at == std::string::npos) throw std::runtime_error("the manifest is not in the file");
  std::string text = manifest.dump();
  while (text.size() > before.size()) {  // what people read makes room
    std::string citation = manifest.at("citation").get<std::string>();
    if (citation.empty()) throw std::runtime_error("no room for the changed manifest");
    citation.pop_back();
    manifest["citation"] = citation;
    text = manifest.dump();
  }
  text.resize(before.size(), ' ');
  return bytes.replace(at, before.size(), text);
}

/// Another value of the same type.
ordered_json foreign(const ordered_json& value) {
  if (value.is_number()) return value.get<std::int64_t>() + 1;
  const std::string text = value.get<std::string>();
  return text.empty() ? "12.1" : text + "x";
}

std::string shown(const ordered_json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.empty() ? "none" : text;
}

TEST(Catalogue, RefusesARealPluginWithAForeignValueInAnyFieldOfItsStamp) {
  const std::string bytes = read_text(quest());
  const std::string before = read_manifest(quest()).json;
  const ordered_json manifest = ordered_json::parse(before);
  const Stamp host = read_stamp(Installation::of_this_program().library());
  std::vector<std::string> fields;
  for (const auto& [field, value] : manifest.at("stamp").items()) {
    fields.push_back(field);
    ordered_json changed = manifest;
    changed["stamp"][field] = foreign(value);
    const TempFolder folder;
    const std::string path = folder.write("quest.so", with_manifest(bytes, before, changed));
    const Catalogue catalogue({{folder.path(), "test", true}}, host);
    EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "quest"); }),
                says({path + ": ", "another host", field + ": expected " + shown(value),
                      "found " + shown(foreign(value)),
                      "-DCMAKE_PREFIX_PATH=" + Installation::of_this_program().root +
                          " && cmake --build"}));
  }
  EXPECT_EQ(fields.size() + 1, host.size()) << "`sdk` stands in a section of its own";
  EXPECT_THAT(fields, ::testing::IsSupersetOf({"contract", "compiler", "cxx_abi", "libtorch",
                                               "libtorch_soname", "cuda", "build", "sizeof_node",
                                               "sizeof_attention_input", "sizeof_batch"}));
}

TEST(Catalogue, RefusesARealPluginThatLacksOneFieldOfTheStamp) {
  const std::string before = read_manifest(quest()).json;
  ordered_json changed = ordered_json::parse(before);
  changed["stamp"].erase("sizeof_node");
  const TempFolder folder;
  folder.write("quest.so", with_manifest(read_text(quest()), before, changed));
  const Catalogue catalogue({{folder.path(), "test", true}},
                            read_stamp(Installation::of_this_program().library()));
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "quest"); }),
              ::testing::ContainsRegex("sizeof_node: expected [0-9]+, found nothing"));
}

TEST(Catalogue, RefusesARealPluginOfOtherPublicHeaders) {
  const Stamp host = read_stamp(Installation::of_this_program().library());
  const std::string hash = host.at("sdk"), other(hash.size(), '0');
  std::string bytes = read_text(quest());
  const std::size_t at = bytes.find(hash);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, hash.size(), other);
  const TempFolder folder;
  folder.write("quest.so", bytes);
  const Catalogue catalogue({{folder.path(), "test", true}}, host);
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "quest"); }),
              mentions("another host", "sdk: expected " + hash, "found " + other));
}

TEST(Catalogue, NamesEveryFieldInWhichAStampDiffers) {
  const TempFolder folder;
  nlohmann::json manifest = made_manifest(Kind::attention, "a");
  manifest["stamp"] = {{"contract", 2}, {"compiler", "Clang 14"}, {"cuda", "12.1"}};
  write_plugin(folder, "a.so", manifest);
  const Catalogue catalogue = catalogue_of(folder.path());
  EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "a"); }),
              mentions("compiler: expected GNU 12, found Clang 14", "contract: expected 1, found 2",
                       "cuda: expected none, found 12.1", "rebuild it"));
}

TEST(Catalogue, RefusesARealPluginCutShortAtAnyLength) {
  const std::string bytes = read_text(quest());
  const Stamp host = read_stamp(Installation::of_this_program().library());
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{3}, std::size_t{4}, std::size_t{63}, std::size_t{64},
        std::size_t{1000}, bytes.size() / 4, bytes.size() / 2, bytes.size() - 4096,
        bytes.size() - 64, bytes.size() - 1}) {
    const TempFolder folder;
    const std::string path = folder.write("quest.so", bytes.substr(0, length));
    const Catalogue catalogue({{folder.path(), "test", true}}, host);
    EXPECT_THAT(message_of<PluginError>([&] { catalogue.find(Kind::attention, "quest"); }),
                ::testing::AnyOf(StartsWith(path + ": is cut short"),
                                 StartsWith(path + ": is not an ELF file")))
        << length;
  }
}

TEST(Catalogue, RefusesARealLibraryThatIsNoPlugin) {
  const TempFolder folder;
  fs::copy_file(Installation::of_this_program().root + "/lib/libattnlab_core.so",
                folder / "core.so");
  EXPECT_THAT(candidate_of(catalogue_of(folder.path()), folder / "core.so").refused,
              StartsWith(folder / "core.so" + ": has no section .attnlab.manifest"));
}

}  // namespace
}  // namespace attnlab::discovery_test
