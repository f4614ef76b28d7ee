#include "host/weights/safetensors.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

template <class E>
SafeTensor view_of(const char* name, SafeDtype dtype, std::vector<int64_t> shape,
                   const std::vector<E>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

class SafetensorsFile : public testing::Test {
 protected:
  SafetensorsFile()
      : folder_(fs::temp_directory_path() / ("kinora-safetensors-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~SafetensorsFile() override { fs::remove_all(folder_); }
  std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  fs::path folder_;
  std::vector<float> floats_{1.5F, -2, 3, 4}, none_;
  std::vector<int64_t> ints_{7, 8, 9};
  std::vector<double> doubles_{0.25};
  std::vector<uint16_t> halves_{0x3C00, 0x4000};  // 1 and 2
  std::vector<uint8_t> truths_{1, 0};
};

TEST(Safetensors, AnotherKindOfFileIsNamed) {
  for (const auto& [begin, said] : std::map<std::string, std::string>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:0",
            "a Git LFS pointer; fetch the file itself"},
           {"PK\x03\x04model/data.pkl", "a file of torch.save or torch.jit.save"},
           {"\x80\x02}q\x01(X\x01\x02\x03", "a file of torch.save or torch.jit.save"},
           {"<!DOCTYPE html>", "a page of HTML"},
           {"{\"_class_name\": 1}", "JSON"},
           {"anything else", "its header would have"}})
    EXPECT_THAT(parse_safetensors(std::as_bytes(std::span(begin)), "in").failure().message, HasSubstr(said))
        << begin;
}

TEST_F(SafetensorsFile, APipeIsRefusedWithoutWaitingForItsWriter) {
  ASSERT_EQ(mkfifo((folder_ / "pipe.safetensors").c_str(), 0600), 0);
  const auto opened = Safetensors::open(folder_ / "pipe.safetensors");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.failure().message, HasSubstr("pipe.safetensors: not a regular file"));
}

// The bytes that safetensors 0.6 (Rust, through its Python package) writes for these tensors.
const char* const kReference =
    "78010000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074227d2c2261223a7b22647479706522"
    "3a22493634222c22736861"
    "7065223a5b335d2c22646174615f6f666673657473223a5b302c32345d7d2c2264223a7b226474797065223a22463634222c2273"
    "68617065223a5b315d2c22"
    "646174615f6f666673657473223a5b32342c33325d7d2c22622e776569676874223a7b226474797065223a22463332222c227368"
    "617065223a5b322c325d2c"
    "22646174615f6f666673657473223a5b33322c34385d7d2c2265223a7b226474797065223a22463332222c227368617065223a5b"
    "302c335d2c22646174615f"
    "6f666673657473223a5b34382c34385d7d2c2268223a7b226474797065223a22463136222c227368617065223a5b325d2c226461"
    "74615f6f66667365747322"
    "3a5b34382c35325d7d2c227a223a7b226474797065223a22424f4f4c222c227368617065223a5b325d2c22646174615f6f666673"
    "657473223a5b35322c3534"
    "5d7d7d202020070000000000000008000000000000000900000000000000000000000000d03f0000c03f000000c0000040400000"
    "8040003c00400100";

TEST_F(SafetensorsFile, HasTheBytesOfTheReferenceImplementation) {
  const auto file = folder_ / "a.safetensors";
  ASSERT_TRUE(write_safetensors(
      file,
      {view_of("b.weight", SafeDtype::f32, {2, 2}, floats_), view_of("a", SafeDtype::i64, {3}, ints_),
       view_of("z", SafeDtype::boolean, {2}, truths_), view_of("h", SafeDtype::f16, {2}, halves_),
       view_of("d", SafeDtype::f64, {1}, doubles_), view_of("e", SafeDtype::f32, {0, 3}, none_)},
      {{"format", "pt"}}));
  std::string hex;
  for (const unsigned char c : bytes_of(file)) hex += fmt::format("{:02x}", c);
  EXPECT_EQ(hex, kReference);
}

TEST_F(SafetensorsFile, GivesBackWhatWasWritten) {
  const auto file = folder_ / "a.safetensors";
  const std::string odd = "quote \" back\\slash \xC3\xA4";
  ASSERT_TRUE(write_safetensors(
      file, {view_of("w", SafeDtype::f32, {4}, floats_), view_of(odd.c_str(), SafeDtype::i64, {3}, ints_)},
      {{odd, odd}}));
  const auto read = Safetensors::open(file);
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(read->names(), (std::vector<std::string>{odd, "w"}));
  EXPECT_EQ(read->metadata().at(odd), odd);
  ASSERT_NE(read->find("w"), nullptr);
  EXPECT_EQ(std::memcmp(read->find("w")->bytes.data(), floats_.data(), 16), 0);
  EXPECT_EQ(read->find("v"), nullptr);
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path(), file) << "a temporary file was left";
}

TEST_F(SafetensorsFile, RefusesToWriteWhatCannotBeRead) {
  const auto file = folder_ / "a.safetensors";
  EXPECT_THAT(write_safetensors(file, {view_of("w", SafeDtype::f32, {5}, floats_)}).failure().message,
              HasSubstr("20 bytes, 16 given"));
  const auto w = view_of("w", SafeDtype::f32, {4}, floats_);
  EXPECT_THAT(write_safetensors(file, {w, w}).failure().message, HasSubstr("two tensors are called 'w'"));
  EXPECT_THAT(write_safetensors(file, {view_of("\xFF", SafeDtype::f32, {4}, floats_)}).failure().message,
              HasSubstr("UTF-8"));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(SafetensorsFile, JoinsShardsByAnIndexAndFindsThemInAFolder) {
  ASSERT_TRUE(write_safetensors(folder_ / "m-1.safetensors", {view_of("a", SafeDtype::f32, {4}, floats_)}));
  ASSERT_TRUE(write_safetensors(folder_ / "m-2.safetensors", {view_of("b", SafeDtype::i64, {3}, ints_)}));
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":40},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  const auto read = Safetensors::open(folder_);
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(read->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::memcmp(read->find("b")->bytes.data(), ints_.data(), 24), 0);

  put("model.safetensors.index.json", R"({"weight_map":{"c":"m-1.safetensors"}})");
  EXPECT_THAT(Safetensors::open(folder_).failure().message,
              HasSubstr("tensor 'c' is not in m-1.safetensors"));
  put("model.safetensors.index.json", R"({"weight_map":{"c":"../../etc/passwd"}})");
  EXPECT_THAT(Safetensors::open(folder_).failure().message, HasSubstr("which is not a file name"));
  put("model.safetensors.index.json", std::string(100000, '['));
  EXPECT_THAT(Safetensors::open(folder_).failure().message, HasSubstr("not an index"));
}

struct HostileIndex {
  const char *index, *message;
};

TEST_F(SafetensorsFile, RefusesHostileIndices) {
  ASSERT_TRUE(write_safetensors(folder_ / "m-1.safetensors", {view_of("a", SafeDtype::f32, {4}, floats_)}));
  ASSERT_TRUE(write_safetensors(folder_ / "m-2.safetensors", {view_of("a", SafeDtype::f32, {4}, floats_),
                                                              view_of("b", SafeDtype::i64, {3}, ints_)}));
  const HostileIndex cases[] = {
      {R"({"weight_map":{"a":"/etc/passwd"}})", "which is not a file name"},
      {R"({"weight_map":{"a":"../m-1.safetensors"}})", "which is not a file name"},
      {R"({"weight_map":{"a":".."}})", "which is not a file name"},
      {R"({"weight_map":{"a":""}})", "which is not a file name"},
      {R"({"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}})", "it says 'a' twice"},
      {R"({"weight_map":{},"weight_map":{"a":"m-1.safetensors"}})", "it says 'weight_map' twice"},
      {R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})",
       "tensor 'a' is in m-1.safetensors and in m-2.safetensors"},
      {R"({"weight_map":{"a":"m-1.safetensors","b":"m-7.safetensors","c":"m-8.safetensors"}})",
       "2 of 3 shards are missing: m-7.safetensors, m-8.safetensors"},
      {R"({"weight_map":{"a":["m-1.safetensors"]}})", "not an index"},
      {R"({"weight_map":[]})", "not an index"},
      {R"([])", "not an index"},
      {R"({"weight_map":{"a":{"b":{"c":{}}}}})", "nested too deep"}};
  for (const auto& c : cases) {
    put("model.safetensors.index.json", c.index);
    const auto read = Safetensors::open(folder_ / "model.safetensors.index.json");
    ASSERT_FALSE(read) << c.index;
    EXPECT_EQ(read.failure().code, KINORA_ERROR_DATA) << c.index;
    EXPECT_THAT(read.failure().message, HasSubstr(c.message)) << c.index;
  }
  // The same name in metadata and in the map is not a duplicate.
  put("model.safetensors.index.json", R"({"metadata":{"a":"1"},"weight_map":{"a":"m-1.safetensors"}})");
  EXPECT_TRUE(Safetensors::open(folder_ / "model.safetensors.index.json"));
}

TEST_F(SafetensorsFile, AFolderStandsForItsUsualNameBeforeVariants) {
  const auto file = [&](const char* name, const char* tensor) {
    ASSERT_TRUE(write_safetensors(folder_ / name, {view_of(tensor, SafeDtype::f32, {4}, floats_)}));
  };
  file("diffusion_pytorch_model.bf16.safetensors", "short");
  file("diffusion_pytorch_model.ema.safetensors", "average");
  EXPECT_THAT(Safetensors::open(folder_).failure().message, HasSubstr("several *.safetensors"));
  file("diffusion_pytorch_model.fp16.safetensors", "variant");
  EXPECT_EQ(Safetensors::open(folder_)->names(), std::vector<std::string>{"variant"});
  file("model.fp16-00001-of-00001.safetensors", "shard");
  put("model.safetensors.index.fp16.json",
      R"({"weight_map":{"shard":"model.fp16-00001-of-00001.safetensors"}})");
  EXPECT_EQ(Safetensors::open(folder_)->names(), std::vector<std::string>{"shard"});
  EXPECT_EQ(Safetensors::open(folder_ / "model.safetensors.index.fp16.json")->names(),
            std::vector<std::string>{"shard"});
  file("diffusion_pytorch_model.safetensors", "usual");
  EXPECT_EQ(Safetensors::open(folder_)->names(), std::vector<std::string>{"usual"});
  put("diffusion_pytorch_model.safetensors.index.json",
      R"({"weight_map":{"variant":"diffusion_pytorch_model.fp16.safetensors"}})");
  EXPECT_EQ(Safetensors::open(folder_)->names(), std::vector<std::string>{"variant"});
  file("model.safetensors", "other");
  EXPECT_EQ(Safetensors::open(folder_)->names(), std::vector<std::string>{"variant"})
      << "an index takes precedence over a file";
}

TEST_F(SafetensorsFile, AnIncompleteFolderSaysWhatItLacks) {
  const auto said = [&] { return Safetensors::open(folder_).failure().message; };
  EXPECT_THAT(said(), HasSubstr("no *.safetensors in this folder; is the download complete?"));
  put("model.bin", "PK");
  EXPECT_THAT(said(), HasSubstr("model.bin is a pickle, which is never read"));
  const auto shard = [&](const char* name) {
    ASSERT_TRUE(write_safetensors(folder_ / name, {view_of(name, SafeDtype::f32, {4}, floats_)}));
  };
  shard("model-00002-of-00003.safetensors");
  EXPECT_THAT(said(), HasSubstr("2 of 3 shards, the first of them shard 1, and the index are missing"));
  shard("model-00001-of-00003.safetensors");
  EXPECT_THAT(said(), HasSubstr("shard 3 of 3 and the index are missing; is the download complete?"));
  shard("model-00003-of-00003.safetensors");
  EXPECT_THAT(said(), HasSubstr("their index model.safetensors.index.json is missing"));
  put("model.safetensors.index.bf16.json",
      R"({"weight_map":{"model-00001-of-00003.safetensors":"model-00001-of-00003.safetensors"}})");
  EXPECT_TRUE(Safetensors::open(folder_)) << "the index of any variant";
}

TEST(Safetensors, ACutFileAsksForTheDownload) {
  const std::string begin("\x02", 1);
  EXPECT_THAT(parse_safetensors(std::as_bytes(std::span(begin)), "in").failure().message,
              HasSubstr("1 bytes are too few for a safetensors file; is the download complete?"));
}

TEST_F(SafetensorsFile, IsCutIntoShardsAndJoinedToTheSameBytes) {
  const std::vector<SafeTensor> all{
      view_of("a", SafeDtype::f32, {4}, floats_), view_of("b", SafeDtype::i64, {3}, ints_),
      view_of("c", SafeDtype::f64, {1}, doubles_), view_of("d", SafeDtype::f16, {2}, halves_)};
  const SafeMetadata metadata{{"format", "pt"}, {"note", "kept"}};
  ASSERT_TRUE(write_safetensors(folder_ / "whole.safetensors", all, metadata));
  const auto index = write_safetensors_sharded(folder_ / "m.safetensors", all, metadata, 24);
  ASSERT_TRUE(index) << index.failure().message;
  EXPECT_EQ(index->filename(), "m.safetensors.index.json");
  const auto joined = Safetensors::open(*index);
  ASSERT_TRUE(joined) << joined.failure().message;
  for (const char* shard :
       {"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors", "m-00003-of-00003.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / shard)) << shard;
  EXPECT_THAT(bytes_of(*index), HasSubstr("\"total_size\": 52"));
  ASSERT_TRUE(write_safetensors(folder_ / "again.safetensors", joined->tensors(), joined->metadata()));
  EXPECT_EQ(bytes_of(folder_ / "again.safetensors"), bytes_of(folder_ / "whole.safetensors"));
  EXPECT_EQ(write_safetensors_sharded(folder_ / "n.safetensors", all, metadata, 1000)->filename(),
            "n.safetensors");
}

TEST_F(SafetensorsFile, AsksForOneTensorAtATime) {
  size_t calls = 0;
  std::vector<float> buffer;
  const std::vector<SafeTensor> shapes{{"a", SafeDtype::f32, {4}, {}}, {"b", SafeDtype::f32, {2}, {}}};
  const auto fill = [&](const SafeTensor& t) {
    ++calls;
    buffer.assign(static_cast<size_t>(t.shape[0]), t.name == "a" ? 1.0F : 2.0F);
    return std::as_bytes(std::span(buffer));
  };
  ASSERT_TRUE(write_safetensors(folder_ / "a.safetensors", shapes, {}, fill));
  EXPECT_EQ(calls, 2u);
  const auto read = Safetensors::open(folder_ / "a.safetensors");
  const std::vector<float> b{2, 2};
  EXPECT_EQ(std::memcmp(read->find("b")->bytes.data(), b.data(), 8), 0);
  const auto short_of = [&](const SafeTensor&) { return std::as_bytes(std::span(buffer).first(1)); };
  EXPECT_THAT(write_safetensors(folder_ / "b.safetensors", shapes, {}, short_of).failure().message,
              HasSubstr("became 4 bytes"));
  EXPECT_FALSE(fs::exists(folder_ / "b.safetensors"));
}

std::string file_of(const std::string& header, const std::string& data, uint64_t length_off = 0) {
  const uint64_t n = header.size() + length_off;
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

struct Hostile {
  const char* header;
  size_t data;
  const char* message;
};

class HostileHeader : public testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsRefusedInWords) {
  const auto bytes = file_of(GetParam().header, std::string(GetParam().data, '\0'));
  const auto parsed = parse_safetensors(std::as_bytes(std::span(bytes)), "in");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.failure().code, KINORA_ERROR_DATA);
  EXPECT_THAT(parsed.failure().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HostileHeader,
    testing::Values(
        Hostile{"", 0, "not JSON"}, Hostile{"[]", 0, "a list where none belongs"},
        Hostile{"{} x", 0, "not JSON"}, Hostile{R"({"a":1})", 0, "a number where none belongs"},
        Hostile{R"({"a":{"b":{}}})", 0, "unknown field 'b'"}, Hostile{R"({"a":{}})", 0, "lacks dtype"},
        Hostile{R"({"a":{"shape":[[1]]}})", 0, "a list where none belongs"},
        Hostile{R"({"a":{"shape":[-1]}})", 0, "negative"}, Hostile{R"({"a":{"shape":[1.5]}})", 0, "fraction"},
        Hostile{R"({"a":{"dtype":"F32","dtype":"F32"}})", 0, "'dtype' twice"},
        Hostile{R"({"a":{"dtype":"F4"}})", 0, "dtype 'F4'"},
        Hostile{R"({"__metadata__":{"x":1}})", 0, "a number"},
        Hostile{R"({"__metadata__":{"x":{}}})", 0, "an object"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "a number where"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "needs 4 bytes"},
        Hostile{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "needs 8 bytes"},
        Hostile{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                "impossible shape"},
        Hostile{R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0,
                "impossible shape"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 2, "truncated"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "trailing bytes"},
        Hostile{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begins at byte 4"},
        Hostile{R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                6, "overlap"},
        Hostile{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                0, "appears twice"}));

TEST(Safetensors, BoundsTheHeaderByTheFileAndByTheLimit) {
  const auto longer = file_of("{}", "", 1);
  EXPECT_THAT(parse_safetensors(std::as_bytes(std::span(longer)), "in").failure().message,
              HasSubstr("truncated"));
  const auto huge = file_of("{}", "", kSafeHeaderLimit);
  EXPECT_THAT(parse_safetensors(std::as_bytes(std::span(huge)), "in").failure().message,
              HasSubstr("at most"));
  EXPECT_THAT(parse_safetensors({}, "in").failure().message, HasSubstr("too few"));
}

// Either a message, or tensors that are within the file.
TEST(Safetensors, SurvivesEveryMutationOfAGoodFile) {
  std::string good;
  for (const char* c = kReference; *c; c += 2)
    good += static_cast<char>(std::stoi(std::string(c, 2), nullptr, 16));
  std::mt19937_64 random(20240229);
  int parsed_ok = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (auto edits = random() % 4 + 1; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const std::vector<char> exact(
        bytes.begin(),
        bytes.end());  // a separate allocation: a sanitizer sees every access past it
    const auto parsed = parse_safetensors(std::as_bytes(std::span(exact)), "in");
    if (!parsed) {
      ASSERT_FALSE(parsed.failure().message.empty());
      continue;
    }
    ++parsed_ok;
    for (const auto& t : parsed->tensors) {
      const auto* begin = reinterpret_cast<const char*>(t.bytes.data());
      ASSERT_TRUE(t.bytes.empty() ||
                  (begin >= exact.data() && begin + t.bytes.size() <= exact.data() + exact.size()));
    }
  }
  EXPECT_GT(parsed_ok, 100);
}

}  // namespace
}  // namespace kinora::core
