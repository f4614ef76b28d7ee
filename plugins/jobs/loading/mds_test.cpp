// Shards that this file writes by the layout in mds.hpp.
#include "plugins/jobs/loading/mds.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/loading/data_order.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class N>
std::string le(N value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

struct Column {
  std::string name, encoding;
  json size;  // null: varies
};
using Columns = std::vector<Column>;

// A sample of these columns.
std::string row(const Columns& columns, const std::vector<std::string>& values) {
  std::string head, body;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].size.is_null()) head += le(static_cast<uint32_t>(values[i].size()));
    body += values[i];
  }
  return head + body;
}

std::string file_of(const std::vector<std::string>& rows, const std::string& config = "{\"columns\": 1}") {
  std::string out = le(static_cast<uint32_t>(rows.size())), body;
  const size_t begin = 4 + 4 * (rows.size() + 1) + config.size();
  for (const auto& one : rows) {
    out += le(static_cast<uint32_t>(begin + body.size()));
    body += one;
  }
  return out + le(static_cast<uint32_t>(begin + body.size())) + config + body;
}

class Mds : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-mds-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    index_ = {{"version", 2}, {"shards", json::array()}};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void add(const std::string& name, const Columns& columns, const std::vector<std::string>& rows) {
    const std::string bytes = file_of(rows);
    write(name, bytes);
    json shard{{"version", 2},
               {"format", "mds"},
               {"compression", nullptr},
               {"hashes", json::array()},
               {"size_limit", 1 << 26},
               {"samples", rows.size()},
               {"raw_data", {{"basename", name}, {"bytes", bytes.size()}, {"hashes", json::object()}}},
               {"zip_data", nullptr}};
    for (const auto& column : columns) {
      shard["column_names"].push_back(column.name);
      shard["column_encodings"].push_back(column.encoding);
      shard["column_sizes"].push_back(column.size);
    }
    index_["shards"].push_back(shard);
    write_index();
  }
  void write_index() const { write("index.json", index_.dump()); }
  std::string path() const { return folder_.string() + "/"; }

  static std::string fields(const WebDatasetSample& sample) {
    std::string out = sample.key() + ":";
    for (const auto& field : sample.fields)
      out += fmt::format(" {}={}", field.name, std::string(field.bytes.begin(), field.bytes.end()));
    return out;
  }

  fs::path folder_;
  json index_;
};

const Columns kClips{{"__key__", "str", {}},  {"caption", "str", {}}, {"duration", "float64", 8},
                     {"id", "int", 8},        {"json", "json", {}},   {"level", "uint8", 1},
                     {"small", "float32", 4}, {"tags", "json", {}},   {"video", "bytes", {}}};

std::string clip(int i) {
  return row(kClips, {fmt::format("clip-{}", i), fmt::format("a sea {}", i), le(i * 0.5), le(int64_t{-1} - i),
                      json{{"blur", i}, {"id", "json's"}}.dump(), le(static_cast<uint8_t>(200 + i)), le(0.1f),
                      "[1, 2]", std::string("v\0x", 3)});
}

TEST_F(Mds, ColumnsAreTheFieldsTheKeyAndTheFacts) {
  add("shard.00000.mds", kClips, {clip(0), clip(1)});
  add("shard.00001.mds", kClips, {clip(2)});
  const auto files = mds_files(path());
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[1].uri, path() + "shard.00001.mds");
  const auto first = open_mds((*files)[0]), second = open_mds((*files)[1]);
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ(first->key(0), "clip-0");
  EXPECT_EQ(second->key(0), "clip-2");
  EXPECT_EQ(fields(first->at(1)),
            "clip-1: caption=a sea 1 duration=0.5 id=-2 json={\"blur\":1,\"id\":\"json's\"} "
            "level=201 small=0.1 tags=[1, 2] video=" +
                std::string("v\0x", 3));
  EXPECT_EQ(first->facts(1), json({{"caption", "a sea 1"},
                                   {"duration", 0.5},
                                   {"blur", 1},
                                   {"id", "json's"},
                                   {"level", 201},
                                   {"small", 0.1f},
                                   {"tags", {1, 2}}}));
  EXPECT_EQ(fields(second->at(0)).substr(0, 7), "clip-2:");
}

TEST_F(Mds, WithoutAColumnOfKeysTheyAreNumbers) {
  const Columns columns{{"key", "int", 8}, {"x", "jpeg", {}}};
  add("shard.00000.mds", columns,
      {row(columns, {le(int64_t{7}), "pic"}), row(columns, {le(int64_t{8}), ""})});
  add("more/shard.00000.mds", {{"key", "str", {}}}, {row({{"key", "str", {}}}, {"own"})});
  const auto files = mds_files(path());
  const auto shard = open_mds(files->at(0));
  EXPECT_EQ(shard->key(1), "shard.00000/1");
  EXPECT_EQ(fields(shard->at(0)), "shard.00000/0: key=7 x=pic");
  EXPECT_EQ(shard->facts(0), json({{"key", 7}}));
  EXPECT_EQ(fields(open_mds(files->at(1))->at(0)), "own:");
}

TEST_F(Mds, IsASetLikeAnyOther) {
  for (int shard = 0; shard < 3; ++shard) {
    std::vector<std::string> rows;
    for (int i = 10 * shard; i < 10 * (shard + 1); ++i) rows.push_back(clip(i));
    add(fmt::format("shard.0000{}.mds", shard), kClips, rows);
  }
  test::TarFiles captions;
  for (int i = 0; i < 30; ++i)
    captions.emplace_back(fmt::format("clip-{}.txt", i), fmt::format("caption {}", i));
  write("captions/s-0.tar", test::tar_bytes(captions));
  DataInput input{.path = path(), .parts = {}, .shuffle = 4, .where = "duration >= 5 and blur < 25"};
  input.joins = {{path() + "captions", {"txt"}}};
  DataOrder order(input, 1);
  EXPECT_EQ(order.pass(), 15u);
  std::vector<int> taken;
  for (uint64_t slot = 0; slot < 15; ++slot) {
    const auto sample = order.set(0).read(order.at(slot).place);
    taken.push_back(std::stoi(sample.key().substr(5)));
    const auto* txt = sample.find("txt");
    ASSERT_TRUE(txt);
    EXPECT_EQ(std::string(txt->bytes.begin(), txt->bytes.end()), fmt::format("caption {}", taken.back()));
    EXPECT_EQ(order.key(slot), sample.key());
  }
  std::sort(taken.begin(), taken.end());
  for (int i = 0; i < 15; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)], 10 + i);
}

TEST_F(Mds, AnotherIndexIsNotOfMds) {
  EXPECT_FALSE(mds_files(path()));
  for (const char* other : {"{}", "[1]", "3", "{\"shards\": 3}", "{\"version\": 2}"}) {
    write("index.json", other);
    EXPECT_FALSE(mds_files(path())) << other;
  }
  write("index.json", "{\"shards\": [");
  EXPECT_THAT(test::refusal([&] { mds_files(path()); }), HasSubstr("index.json: it is not JSON"));
}

TEST_F(Mds, SaysWhatOfTheIndexIsWrong) {
  add("shard.00000.mds", kClips, {clip(0)});
  add("shard.00001.mds", kClips, {clip(1)});
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"/version", 1, "index.json: shard 1 is not of the format mds, version 2"},
      {"/format", "csv", "shard 1 is not of the format mds"},
      {"/compression", "zstd:7", "shard 1 is compressed (zstd:7)"},
      {"/column_encodings/8", "ndarray:float32:4",
       "the column 'video' of shard 1 has the encoding ndarray:float32:4"},
      {"/column_encodings/8", "pkl", "the column 'video' of shard 1 has the encoding pkl"},
      {"/column_encodings/8", 3, "a column without a name, an encoding or a size"},
      {"/column_names/1", "video", "two columns 'video'"},
      {"/column_names", json::array({"a"}), "lists of columns of different lengths"},
      {"/column_sizes", nullptr, "has no list 'column_sizes'"},
      {"/column_sizes/2", 4, "the column 'duration' of shard 1 has the size 4"},
      {"/column_sizes/2", nullptr, "the column 'duration' of shard 1 has the size 0"},
      {"/column_sizes/8", -1, "a column without a name, an encoding or a size"},
      {"/column_sizes/8", uint64_t{1} << 40, "the column 'video' of shard 1 has the size 1099511627776"},
      {"/raw_data/basename", "../shard.00001.mds", "no basename of a file below the folder"},
      {"/raw_data/basename", "/etc/passwd", "no basename of a file below the folder"},
      {"/raw_data", nullptr, "no number 'bytes'"},
      {"/raw_data/bytes", -1, "no number 'bytes'"},
      {"/samples", 1.5, "no number 'samples'"},
      {"/samples", ~uint64_t{0}, "no number 'samples'"}};
  const json sound = index_;
  for (const auto& [pointer, value, words] : cases) {
    index_ = sound;
    index_["shards"][1][json::json_pointer(pointer)] = value;
    write_index();
    EXPECT_THAT(test::refusal([&] { mds_files(path()); }), HasSubstr(words)) << pointer;
  }
  index_["shards"] = {3};
  write_index();
  EXPECT_THAT(test::refusal([&] { mds_files(path()); }), HasSubstr("shard 0 is not of the format mds"));
}

TEST_F(Mds, AFileThatIsNotAsTheIndexSaysIsRefused) {
  add("shard.00000.mds", kClips, {clip(0), clip(1)});
  const std::string sound = file_of({clip(0), clip(1)});
  const auto with = [&](size_t at, uint32_t value) {
    std::string out = sound;
    out.replace(at, 4, le(value));
    return out;
  };
  const auto end = static_cast<uint32_t>(sound.size());
  const auto refused = [&](const std::string& bytes) {
    write("shard.00000.mds", bytes);
    return test::refusal([&] { open_mds(mds_files(path())->at(0)); });
  };
  EXPECT_EQ(refused(sound), "nothing was refused");
  EXPECT_THAT(refused(sound.substr(0, end - 1)),
              HasSubstr(fmt::format("has {} bytes where index.json says {}", end - 1, end)));
  EXPECT_THAT(refused(with(0, 1)), HasSubstr("has 1 samples where index.json says 2"));
  EXPECT_THAT(refused(with(4, 15)), HasSubstr("do not rise or lead out of it"));
  EXPECT_THAT(refused(with(8, end)), "nothing was refused");  // a sample that is too long costs itself
  EXPECT_THAT(refused(with(8, end + 1)), HasSubstr("do not rise or lead out of it"));
  EXPECT_THAT(refused(with(12, end + 1)), HasSubstr("do not rise or lead out of it"));
  EXPECT_THAT(refused(with(12, 16)), HasSubstr("do not rise or lead out of it"));
  index_["shards"][0]["samples"] = end;
  write_index();
  EXPECT_THAT(refused(sound), HasSubstr("is too short for the"));
}

TEST_F(Mds, ADamagedSampleCostsNoOther) {
  std::string damaged = clip(1);
  damaged.replace(0, 4, le(uint32_t{0xffffffff}));
  add("shard.00000.mds", kClips, {clip(0), damaged, "x", "", clip(4)});
  const auto shard = open_mds(mds_files(path())->at(0));
  for (const uint64_t i : {1, 2, 3}) {
    const std::string words = fmt::format("shard.00000.mds has a damaged sample {}: ", i);
    EXPECT_THAT(test::refusal([&] { shard->at(i); }), HasSubstr(words));
    EXPECT_THAT(test::refusal([&] { shard->key(i); }), HasSubstr(words));
    EXPECT_THAT(test::refusal([&] { shard->facts(i); }), HasSubstr(words));
  }
  EXPECT_EQ(shard->key(0), "clip-0");
  EXPECT_EQ(shard->at(4).key(), "clip-4");
  DataOrder order({.path = path(), .parts = {}}, 1);
  for (uint64_t slot = 0; slot < 5; ++slot)
    EXPECT_THAT(order.key(slot), ::testing::AnyOf("clip-0", "clip-4")) << slot;
}

TEST_F(Mds, AKeyThatIsNoNameCostsItsSample) {
  const Columns columns{{"key", "str", {}}, {"txt", "str", {}}};
  add("shard.00000.mds", columns,
      {row(columns, {"a", "sea"}), row(columns, {"../a", "sea"}), row(columns, {"", "sea"})});
  const auto shard = open_mds((*mds_files(path()))[0]);
  EXPECT_EQ(shard->at(0).key(), "a");
  for (const uint64_t i : {1, 2}) {
    try {
      shard->at(i);
      ADD_FAILURE() << "sample " << i;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(fmt::format("shard.00000.mds: sample {}: ", i)));
    }
  }
}

TEST_F(Mds, FactsThatCannotBeReadAreMissing) {
  const Columns columns{{"a", "json", {}}, {"json", "str", {}}, {"n", "float64", 8}, {"t", "str", {}}};
  add("s.mds", columns, {row(columns, {"{", "[1]", le(std::nan("")), "caf\xC3"})});
  const auto shard = open_mds(mds_files(path())->at(0));
  EXPECT_EQ(shard->facts(0), json({{"a", nullptr}, {"n", nullptr}, {"t", "caf\xEF\xBF\xBD"}}));
  EXPECT_EQ(fields(shard->at(0)), "s/0: a={ json=[1] n=nan t=caf\xC3");
}

TEST_F(Mds, BrokenJsonIsADamagedSample) {
  const Columns columns{{"json", "json", {}}, {"t", "str", {}}};
  add("s.mds", columns, {row(columns, {"{}", "a"}), row(columns, {"{", "b"})});
  const auto shard = open_mds(mds_files(path())->at(0));
  EXPECT_EQ(shard->facts(0), json({{"t", "a"}}));
  EXPECT_THAT(test::refusal([&] { shard->facts(1); }),
              HasSubstr("s.mds has a damaged sample 1: its json at byte "));
}

// A server that says any size and sends four bytes: the largest buffer that was asked for stays small.
class Boaster final : public ByteSource {
 public:
  explicit Boaster(uint64_t size) : size_(size) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    if (size > largest_) largest_ = size;
    const uint32_t samples = static_cast<uint32_t>(size_ / 4 - 2);
    if (offset != 0) return uint64_t{0};
    std::memcpy(to, &samples, 4);
    return uint64_t{4};
  }
  uint64_t largest() const { return largest_; }

 private:
  std::string name_ = "s3://b/s.mds";
  uint64_t size_;
  mutable uint64_t largest_ = 0;
};

TEST_F(Mds, AllocatesNoMoreThanArrives) {
  constexpr uint64_t kSaid = UINT32_MAX - 3;
  const auto source = std::make_shared<Boaster>(kSaid);
  const MdsFile file{"s3://b/s.mds", "s", kSaid, kSaid / 4 - 2, std::make_shared<MdsColumns>()};
  EXPECT_THAT(test::refusal([&] {
                open_mds(file,
                         [&](std::string_view) { return Result<std::shared_ptr<const ByteSource>>(source); });
              }),
              HasSubstr("s3://b/s.mds: was cut off while it was read: 4 of "));
  EXPECT_LE(source->largest(), uint64_t{16} << 20);
}

// Mutations of a sound index and shard, always the same ones: samples or an error, never a crash.
TEST_F(Mds, SurvivesHostileBytes) {
  add("shard.00000.mds", kClips, {clip(0), clip(1), clip(2)});
  const std::string index = index_.dump(), shard = file_of({clip(0), clip(1), clip(2)});
  std::mt19937 random(1);
  size_t samples = 0, errors = 0;
  for (int round = 0; round < 600; ++round) {
    const bool is_index = round < 300;
    std::string one = is_index ? index : shard;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) one[random() % one.size()] = static_cast<char>(random());
    if (round == 300) write("index.json", index);
    write(is_index ? "index.json" : "shard.00000.mds", one);
    try {
      const auto files = mds_files(path());
      if (!files) continue;
      const auto opened = open_mds(files->at(0));
      for (uint64_t i = 0; i < opened->size(); ++i, ++samples) {
        opened->key(i);
        opened->facts(i);
        opened->at(i);
      }
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(samples, 50u);
  EXPECT_GT(errors, 50u);
}

}  // namespace
}  // namespace kinora::core
