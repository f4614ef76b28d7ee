#include "webdataset_stage.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sqlite3.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/testing.hpp"

namespace kinora::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::map<std::string, std::string> tree(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& e : fs::recursive_directory_iterator(folder))
    if (e.is_regular_file()) out[fs::relative(e.path(), folder).string()] = slurp(e.path());
  return out;
}

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    kinora::testing::start();
    std::string name = (fs::temp_directory_path() / "kinora-shard-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }

  // Sample n: sizes that are not multiples of a block, fields in unsorted order, and a url that is not
  // stored.
  static Sample sample(int n) {
    Sample s("film-" + std::to_string(n));
    s.set("url", "/videos/x.mp4");
    s.set("mp4", std::string(static_cast<size_t>(n * 997 % 3000), static_cast<char>('a' + n % 26)));
    s.set("json", "{\"n\": " + std::to_string(n) + "}");
    s.set("txt", "");
    return s;
  }
  void pack(const std::string& folder, WebDatasetStage::Options o, int from, int to, bool finish = true,
            int32_t writers = 1) {
    const kinora::testing::Run run(root + "/" + folder, writers);
    WebDatasetStage stage(o);
    for (int n = from; n < to; ++n) stage.process(sample(n), out.emit(), run);
    if (finish) stage.finish(out.emit(), run);
  }
  std::string path(const std::string& name) const { return root + "/" + name; }
  std::string message_of(Sample s) {
    try {
      WebDatasetStage stage({});
      stage.process(std::move(s), out.emit(), kinora::testing::Run(path("x")));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  kinora::testing::Collector out;
  std::string root;
};

TEST_F(Shards, ListsMembersInTheOrderOfTheSource) {
  pack("a", {.max_count = 4}, 0, 10);
  std::vector<std::string> names;
  for (const char* shard : {"shard-000000.tar", "shard-000001.tar", "shard-000002.tar"}) {
    TarReader tar(RandomBytes::of_file(path(std::string("a/") + shard)));
    while (const auto member = tar.next()) names.push_back(member->name);
    EXPECT_EQ(tar.end() + 1024, fs::file_size(path(std::string("a/") + shard)));
  }
  std::vector<std::string> expected;
  for (int n = 0; n < 10; ++n)
    for (const char* field : {".mp4", ".json", ".txt"})
      expected.push_back("film-" + std::to_string(n) + field);
  EXPECT_EQ(names, expected);
  EXPECT_FALSE(fs::exists(path("a/shard-000003.tar")));
  EXPECT_EQ(out.held, 10);
  EXPECT_EQ(out.stored.size(), 10u);
}

// Python's webdataset, tarfile and sqlite3, and megatron-energon if installed, read the same samples.
TEST_F(Shards, AreWhatOtherReadersExpect) {
  const fs::path project = fs::path(KINORA_TEST_DATA) / ".." / "..",
                 python = project / ".deps" / "venv" / "bin" / "python3";
  const char* asked = std::getenv("KINORA_ORACLE_PYTHON");
  if (!asked && !fs::exists(python))
    GTEST_SKIP() << "no Python in .deps/venv; packaging/dev.sh setup makes one";
  std::vector<Sample> samples;
  for (int n = 0; n < 40; ++n) samples.push_back(sample(n));
  samples.emplace_back(std::string(180, 'd') + "/" + std::string(90, 'k'));
  samples.back().set("txt", "long");
  samples.emplace_back("caf\xC3\xA9/film");
  samples.back().set("shots.json", "{}");
  std::string listing;
  {
    const kinora::testing::Run run(path("a"));
    WebDatasetStage stage({.max_count = 9, .val = 0.4});
    for (const auto& s : samples) {
      stage.process(s, out.emit(), run);
      std::string fields;
      for (const auto& field : s.fields()) {
        if (field.name == "url") continue;
        std::string hex;
        for (const uint8_t byte : field.bytes)
          hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
        fields += (fields.empty() ? "\"" : ", \"") + std::string(field.name) + "\": \"" + hex + "\"";
      }
      listing += (listing.empty() ? "[" : ",\n") + std::string("{\"key\": \"") + std::string(s.key()) +
                 "\", \"fields\": {" + fields + "}}";
    }
    stage.finish(out.emit(), run);
  }
  std::ofstream(path("listing.json")) << listing << "]\n";
  const std::string script = (project / "tests" / "oracle" / "shards_oracle.py").string();
  const std::string command = "'" + (asked ? std::string(asked) : python.string()) + "' '" + script + "' '" +
                              path("a") + "' '" + path("listing.json") + "'";
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "webdataset is not installed in that Python";
  EXPECT_EQ(status, 0) << command;
}

TEST_F(Shards, LeaveOutTheFieldsThatAreNamed) {
  const auto has = [&](const char* folder, const char* member) {
    for (const auto& [name, bytes] : tree(path(folder)))
      if (name.ends_with(".tar") && bytes.find(member) != std::string::npos) return true;
    return false;
  };
  pack("a", {}, 0, 3);
  pack("b", {.skip = {"txt"}}, 0, 3);
  EXPECT_TRUE(has("a", "film-1.txt") && !has("a", "film-1.url"));
  EXPECT_TRUE(!has("b", "film-1.txt") && has("b", "film-1.url") && has("b", "film-1.mp4"));
}

TEST_F(Shards, AreTheSameBytesForAnyNumberOfWriters) {
  const WebDatasetStage::Options o{.max_size = 20000, .val = 0.25};
  pack("a", o, 0, 60);
  for (const int32_t writers : {1, 2, 5}) {
    const std::string folder = std::to_string(writers);
    out.stored.clear();
    pack(folder, o, 0, 60, true, writers);
    EXPECT_EQ(tree(path("a")), tree(path(folder))) << writers;
    EXPECT_EQ(out.stored.front(), "film-0");
    EXPECT_EQ(out.stored.back(), "film-59") << "stored in the order of the shards";
    EXPECT_EQ(out.stored.size(), 60u);
  }
  for (const auto& [name, bytes] : tree(path("a"))) {
    EXPECT_TRUE(!name.ends_with(".tar") || bytes.size() <= 20000u) << name;
  }
}

// The size of a shard counts the headers of names that are too long for ustar or not ASCII.
TEST_F(Shards, OfLongNamesKeepTheirLargestSize) {
  const kinora::testing::Run run(path("a"));
  WebDatasetStage stage({.max_size = 20000});
  for (int n = 0; n < 40; ++n) {
    Sample s(std::string(150, 'd') + "/" + std::string(100, 'k') + (n % 2 ? "\xC3\xA9" : "e") +
             std::to_string(n));
    s.set("txt", std::string(static_cast<size_t>(n * 37), 't'));
    stage.process(s, out.emit(), run);
  }
  stage.finish(out.emit(), run);
  EXPECT_TRUE(fs::exists(path("a/shard-000003.tar")));
  for (const auto& [name, bytes] : tree(path("a")))
    EXPECT_TRUE(!name.ends_with(".tar") || bytes.size() <= 20000u) << name << " " << bytes.size();
}

// A run that is interrupted anywhere and given its samples again ends with the bytes of an uninterrupted run.
TEST_F(Shards, AfterARestartAreThoseOfAnUninterruptedRun) {
  const WebDatasetStage::Options o{.max_count = 5, .max_size = 9000};
  pack("whole", o, 0, 23);
  for (int cut = 0; cut <= 23; ++cut) {
    const std::string folder = "cut" + std::to_string(cut);
    const int32_t writers = 1 + cut % 4;
    out.stored.clear();
    pack(folder, o, 0, cut, false, writers);
    const auto stored = static_cast<int>(out.stored.size());
    if (cut % 3 == 0)
      fs::remove(path(folder + "/shard-000001.tar.idx"));  // as if killed between the two files
    // Stored samples may or may not be given again.
    pack(folder, o, cut % 2 ? stored : 0, 23, true, writers);
    EXPECT_EQ(tree(path(folder)), tree(path("whole"))) << "cut after " << cut;
  }
}

// Of several shards that are written at once, a later one may be complete when the run is killed.
TEST_F(Shards, AfterARestartFillAGap) {
  const WebDatasetStage::Options o{.max_count = 5};
  pack("whole", o, 0, 23, true, 3);
  fs::create_directory(path("cut"));
  for (const char* name :
       {"shard-000000.tar", "shard-000000.tar.idx", "shard-000002.tar", "shard-000003.tar"})
    fs::copy(path("whole/") + name, path("cut/") + name);
  const auto first = fs::last_write_time(path("cut/shard-000000.tar"));
  pack("cut", o, 0, 23, true, 3);
  EXPECT_EQ(tree(path("cut")), tree(path("whole")));
  EXPECT_EQ(fs::last_write_time(path("cut/shard-000000.tar")), first);
}

TEST_F(Shards, InFoldersAndPartsAreOneDatasetThatABrokenRunGoesOnWith) {
  const WebDatasetStage::Options o{.max_count = 2, .part = 2};
  const auto pack_until = [&](const std::string& folder, int to, bool finish, int32_t writers = 1) {
    const kinora::testing::Run run(root + "/" + folder, writers);
    WebDatasetStage stage(o);
    for (int n = 0; n < to; ++n) {
      Sample s = sample(n);
      s.set("shard.folder", n < 11 ? "resolution_720/duration_5_10" : "resolution_1080/duration_0_5");
      stage.process(s, out.emit(), run);
    }
    if (finish) stage.finish(out.emit(), run);
  };
  pack_until("whole", 14, true);
  const auto whole = tree(path("whole"));
  for (const char* name : {"resolution_720/duration_5_10/part_000000/shard-000001.tar",
                           "resolution_720/duration_5_10/part_000002/shard-000001.tar",
                           "resolution_1080/duration_0_5/part_000000/shard-000000.tar.idx"})
    EXPECT_TRUE(whole.contains(name)) << name;
  EXPECT_EQ(
      std::count_if(whole.begin(), whole.end(), [](const auto& f) { return f.first.ends_with(".tar"); }), 8);
  EXPECT_THAT(slurp(path("whole/.nv-meta/.info.json")),
              HasSubstr("\"resolution_1080/duration_0_5/part_000000/shard-000001.tar\": 1"));
  for (const auto& [name, bytes] : whole) EXPECT_EQ(bytes.find("shard.folder"), std::string::npos) << name;
  for (int cut = 0; cut <= 14; ++cut) {
    const std::string folder = "cut" + std::to_string(cut);
    pack_until(folder, cut, false, 1 + cut % 5);
    pack_until(folder, 14, true, 1 + cut % 3);
    EXPECT_EQ(tree(path(folder)), whole) << "cut after " << cut;
  }
  for (const char* bad : {"../a", "/a", "a/", "a.b", "a//b"}) {
    Sample s = sample(1);
    s.set("shard.folder", bad);
    WebDatasetStage stage(o);
    const kinora::testing::Run run(root + "/bad");
    EXPECT_THROW(stage.process(s, out.emit(), run), Error) << bad;
  }
}

// With one writer, the first shard is recorded before the second one begins.
TEST_F(Shards, KeepABrokenRunsSamplesUntold) {
  pack("a", {.max_count = 4}, 0, 10, false);
  EXPECT_EQ(out.stored.size(), 4u);
  EXPECT_TRUE(fs::exists(path("a/shard-000000.tar")));
  EXPECT_FALSE(fs::exists(path("a/shard-000002.tar")));
  EXPECT_FALSE(fs::exists(path("a/shard-000001.tar.part")) || fs::exists(path("a/.nv-meta")));
}

class ShardsOfFiles : public Shards {
 protected:
  // The sample of the same number, whose fields but txt are files, and the caption is another one.
  Sample with_files(int n) {
    const Sample whole = sample(n);
    std::string files = "{";
    for (const char* field : {"mp4", "json", "txt", "url", "classic.npy", "latent", "jpg"}) {
      const std::string name = path(std::string(whole.key()) + "." + field);
      const std::string bytes = std::string(whole.text(field).value_or(field));
      std::ofstream(name, std::ios::binary) << bytes;
      files += std::string(files.size() > 1 ? "," : "") + "\"" + field + "\": [\"" + name + "\", " +
               std::to_string(bytes.size()) + "]";
    }
    Sample out(whole.key());
    out.set("shard.files", files + "}");
    out.set("txt", "Mine.");
    return out;
  }
  // The message of the error that ends the run.
  std::string message_of_run(const std::string& folder, const Sample& s) {
    try {
      const kinora::testing::Run run(path(folder));
      WebDatasetStage stage({});
      stage.process(s, out.emit(), run);
      stage.finish(out.emit(), run);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
};

// Fields that are files are those of bytes: in the order of their names, of any kind, and a byte field counts
// instead of a file.
TEST_F(ShardsOfFiles, HaveTheBytesOfTheFiles) {
  const kinora::testing::Run run_a(path("a"), 3), run_b(path("b"));
  WebDatasetStage of_files({.max_count = 4}), of_bytes({.max_count = 4});
  for (int n = 0; n < 19; ++n) {
    of_files.process(with_files(n), out.emit(), run_a);
    Sample bytes(sample(n).key());
    for (const char* field : {"classic.npy", "jpg", "json", "latent", "mp4"})
      bytes.set(field, sample(n).text(field).value_or(field));
    bytes.set("txt", "Mine.");
    of_bytes.process(bytes, out.emit(), run_b);
  }
  of_files.finish(out.emit(), run_a);
  of_bytes.finish(out.emit(), run_b);
  const auto whole = tree(path("a"));
  EXPECT_EQ(whole, tree(path("b")));
  EXPECT_TRUE(whole.contains("shard-000004.tar"));
  EXPECT_THAT(whole.at("shard-000000.tar"), HasSubstr("film-3.latent"));
}

TEST_F(ShardsOfFiles, OfManyPiecesHaveTheirBytes) {
  std::string bytes(3'000'001, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  std::ofstream(path("long.mp4"), std::ios::binary) << bytes;
  Sample s("long");
  s.set("shard.files", R"({"mp4": [")" + path("long.mp4") + R"(", 3000001]})");
  EXPECT_EQ(message_of_run("a", s), "");
  EXPECT_EQ(slurp(path("a/shard-000000.tar")).substr(512, bytes.size()), bytes);
}

TEST_F(ShardsOfFiles, EndWithOneErrorThatNamesTheFile) {
  Sample s = with_files(1);
  std::ofstream(path("film-1.json"), std::ios::app) << " ";
  EXPECT_THAT(message_of_run("a", s), HasSubstr(path("film-1.json") + ": it has 9 bytes now, and had 8"));
  s = with_files(1);
  fs::remove(path("film-1.mp4"));
  EXPECT_THAT(message_of_run("b", s), HasSubstr(path("film-1.mp4") + ": no such file"));
  std::ofstream(path("file")) << "";
  EXPECT_THAT(message_of_run("file/c", with_files(2)),
              HasSubstr(path("file/c/shard-000000.tar") + ": cannot be written"));
  for (const char* wrong : {"", "[]", R"({"mp4": "/a"})", R"({"mp4": ["/a", -1]})", R"({"mp4": [1, 1]})"}) {
    s.set("shard.files", wrong);
    EXPECT_THAT(message_of_run("d", s), HasSubstr("its field shard.files is not like")) << wrong;
  }
  for (const char* folder : {"a", "b"}) EXPECT_TRUE(tree(path(folder)).empty()) << folder;
}

TEST_F(Shards, HaveOffsetsAsInTheArchive) {
  pack("a", {}, 0, 7);
  const std::string tar = slurp(path("a/shard-000000.tar")), idx = slurp(path("a/shard-000000.tar.idx"));
  ASSERT_EQ(idx.size(), 8u * 8);
  for (int n = 0; n < 7; ++n) {
    uint64_t at = 0;
    std::memcpy(&at, idx.data() + n * 8, 8);
    EXPECT_EQ(std::string(tar.data() + at), "film-" + std::to_string(n) + ".mp4");
  }
  uint64_t end = 0;
  std::memcpy(&end, idx.data() + 56, 8);
  EXPECT_EQ(end + 1024, tar.size());
}

TEST_F(Shards, HaveADatabaseThatFindsEveryPart) {
  pack("a", {.max_count = 3}, 0, 7);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2(path("a/.nv-meta/index.sqlite").c_str(), &db, SQLITE_OPEN_READONLY, nullptr),
            SQLITE_OK);
  int rows = 0;
  const auto each = [&](const char* sql, auto&& row) {
    sqlite3_stmt* s = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(db, sql, -1, &s, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    while (sqlite3_step(s) == SQLITE_ROW) row(s);
    sqlite3_finalize(s);
  };
  each(
      "SELECT s.sample_key, p.part_name, s.tar_file_id, p.content_byte_offset, p.content_byte_size, "
      "s.byte_offset, s.byte_size"
      " FROM samples s JOIN sample_parts p USING (tar_file_id, sample_index)",
      [&](sqlite3_stmt* s) {
        ++rows;
        const std::string key(reinterpret_cast<const char*>(sqlite3_column_text(s, 0)));
        const std::string part(reinterpret_cast<const char*>(sqlite3_column_text(s, 1)));
        const std::string tar =
            slurp(path("a/shard-00000" + std::to_string(sqlite3_column_int(s, 2)) + ".tar"));
        const Sample original = sample(std::stoi(key.substr(5)));
        EXPECT_EQ(tar.substr(static_cast<size_t>(sqlite3_column_int64(s, 3)),
                             static_cast<size_t>(sqlite3_column_int64(s, 4))),
                  original.need(part.c_str()));
        EXPECT_EQ(std::string(tar.data() + sqlite3_column_int64(s, 5)), key + ".mp4");
      });
  EXPECT_EQ(rows, 21);
  std::vector<std::string> indexes;
  each("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name",
       [&](sqlite3_stmt* s) {
         indexes.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(s, 0)));
       });
  EXPECT_THAT(indexes,
              ElementsAre("idx_sample_parts_full", "idx_sample_parts_seq", "idx_samples_by_tar_and_idx"));
  sqlite3_close(db);
}

TEST_F(Shards, HaveEnergonsFiles) {
  pack("a", {.max_count = 1, .val = 0.25}, 0, 8);
  EXPECT_EQ(slurp(path("a/.nv-meta/split.yaml")),
            "split_parts:\n  train:\n  - shard-{000000..000002}.tar\n  - shard-{000004..000006}.tar\n"
            "  val:\n  - shard-000003.tar\n  - shard-000007.tar\nexclude: []\n");
  EXPECT_THAT(slurp(path("a/.nv-meta/.info.json")),
              HasSubstr("\"shard-000000.tar\": 1,\n    \"shard-000001.tar\": 1,"));
  EXPECT_EQ(slurp(path("a/.nv-meta/dataset.yaml")),
            "__module__: megatron.energon\n__class__: CrudeWebdataset\n");
  EXPECT_THAT(slurp(path("a/.nv-meta/index.uuid")),
              ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  pack("b", {.max_count = 1, .val = 0.25}, 0, 7);
  EXPECT_NE(slurp(path("a/.nv-meta/index.uuid")), slurp(path("b/.nv-meta/index.uuid")));
}

TEST_F(Shards, OfNothingAreAnEmptyDataset) {
  pack("a", {}, 0, 0);
  EXPECT_THAT(slurp(path("a/.nv-meta/.info.json")), HasSubstr("\"shard_counts\": {}"));
  EXPECT_THAT(slurp(path("a/.nv-meta/split.yaml")), HasSubstr("train: []"));
}

TEST_F(Shards, TakeLongAndForeignNames) {
  const std::vector<std::string> keys = {
      std::string(90, 'k'), std::string(140, 'd') + "/" + std::string(90, 'k'), std::string(300, 'x'),
      "caf\xC3\xA9/\xE5\xBD\xB1\xE7\x89\x87", "a.b/c"};
  {
    const kinora::testing::Run run(path("a"));
    WebDatasetStage stage({});
    for (const auto& key : keys) {
      Sample s(key);
      s.set("txt", key);
      stage.process(s, out.emit(), run);
    }
    stage.finish(out.emit(), run);
  }
  energon::ShardScan scan(RandomBytes::of_file(path("a/shard-000000.tar")));
  const std::string tar = slurp(path("a/shard-000000.tar"));
  for (const auto& key : keys) {
    const auto sample = scan.next();
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->key, key);
    ASSERT_EQ(sample->parts.size(), 1u);
    EXPECT_EQ(sample->parts[0].name, "txt");
    EXPECT_EQ(tar.substr(sample->parts[0].offset, sample->parts[0].size), key);
  }
  EXPECT_FALSE(scan.next());
}

TEST_F(Shards, RefuseKeysThatReadersWouldSplitElsewhere) {
  EXPECT_THAT(message_of(Sample("a.b")),
              HasSubstr("sample 'a.b' cannot be stored: a key may have no dot after its last slash"));
  EXPECT_THAT(message_of(Sample("x/.hidden")), HasSubstr("no dot"));
  for (const char* key : {"", "/a", "a/", "a//b", "a/../b", "__note__", "__note__/a", "a\nb"}) {
    EXPECT_THROW(check_key(key), Error) << key;
  }
  for (const char* key : {"a", "a.b/c", "a/b-c_d", "__a", "\xC3\xA9"}) EXPECT_NO_THROW(check_key(key)) << key;
  EXPECT_THAT(message_of(Sample("a")), HasSubstr("no byte fields"));
  Sample slash("a");
  slash.set("x/y", "1");
  EXPECT_THAT(message_of(slash), HasSubstr("field name 'x/y'"));
}

TEST_F(Shards, RefuseASecondSampleOfAKey) {
  const kinora::testing::Run run(path("a"));
  WebDatasetStage stage({.max_count = 2});
  const auto error_of = [](const auto& f) {
    try {
      f();
    } catch (const Error& e) {
      return e;
    }
    return Error(KINORA_OK, "");
  };
  for (int n : {0, 1, 2}) stage.process(sample(n), out.emit(), run);
  const Error same = error_of([&] { stage.process(sample(2), out.emit(), run); });
  EXPECT_EQ(same.code(), KINORA_ERROR_DATA);
  EXPECT_THAT(same.what(), HasSubstr("its shard has a sample with that key; make"));
  stage.process(sample(0), out.emit(), run);
  const Error other = error_of([&] { stage.finish(out.emit(), run); });
  EXPECT_EQ(other.code(), KINORA_ERROR_IO) << "it ends the run";
  EXPECT_THAT(other.what(), HasSubstr("two samples are called 'film-0'; keys must be unique"));
}

TEST(EnergonFiles, QuoteNamesThatYamlWouldReadOtherwise) {
  EXPECT_EQ(energon::split_yaml({{"000.tar", 1}, {"001.tar", 2}, {"it's: a.tar", 1}, {"empty.tar", 0}}, 0),
            "split_parts:\n  train:\n  - '{000..001}.tar'\n  - 'it''s: a.tar'\nexclude: []\n");
}

TEST(BraceList, ShortensRunsOfNumbers) {
  using energon::brace_list;
  EXPECT_THAT(brace_list({"a-08.tar", "a-09.tar", "a-10.tar", "a-12.tar", "b-13.tar", "b-14.tar", "c.tar"}),
              ElementsAre("a-{08..10}.tar", "a-12.tar", "b-{13..14}.tar", "c.tar"));
  EXPECT_THAT(brace_list({"a-999999.tar", "a-1000000.tar", "a-1000001.tar"}),
              ElementsAre("a-999999.tar", "a-{1000000..1000001}.tar"));
  const std::string many(30, '9');
  EXPECT_THAT(brace_list({many, many}), ElementsAre(many, many)) << "more digits than a number has";
}

}  // namespace
}  // namespace kinora::shard
