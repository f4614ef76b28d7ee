// Headers that state sizes up to 2^63 over files of a few hundred bytes, for every reader of strangers' files
// that has no test program of its own for them: an error that names the file, in 64 MiB.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "host/weights/safetensors.hpp"
#include "kinora/npy.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/latents/hdf5/hdf5_file.hpp"
#include "plugins/jobs/loading/mds.hpp"
#include "plugins/jobs/loading/shard_set.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

struct Stated {
  const char* what;
  std::function<void(const fs::path& folder)> read;  // writes the file and reads it
  const char* said;                                  // part of the error
};

std::string little(uint64_t n, size_t width = 8) {
  std::string out(width, '\0');
  std::memcpy(out.data(), &n, width);
  return out;
}

fs::path put(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

auto safetensors(const std::string& header, uint64_t stated = 0) {
  return [=](const fs::path& folder) {
    const std::string bytes = little(stated ? stated : header.size()) + header + std::string(64, 'x');
    or_throw(Safetensors::open(put(folder / "x.safetensors", bytes)));
  };
}

std::string tensor(const std::string& name, const char* dtype, const char* shape, const char* offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

auto npy(const char* shape) {
  return [=](const fs::path&) {
    const std::string header =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}\n", shape);
    read_npy("\x93NUMPY\x01" + std::string(1, '\0') + little(header.size(), 2) + header + "12345678",
             "x.npy");
  };
}

// A member's header of ustar, of a size in base 256 where `size` does not fit into octal digits.
std::string tar_header(const std::string& name, char type, uint64_t size) {
  std::string h(512, '\0');
  h.replace(0, name.size(), name);
  h.replace(100, 8, "0000644");
  if (size < uint64_t{1} << 33) {
    h.replace(124, 11, fmt::format("{:011o}", size));
  } else {
    h[124] = '\x80';
    for (size_t i = 0; i < 8; ++i) h[128 + i] = static_cast<char>(size >> 8 * (7 - i));
  }
  h[156] = type;
  h.replace(257, 8, "ustar  ");
  h.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const unsigned char c : h) sum += c;
  h.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  return h;
}

auto tar(const std::string& bytes) {
  return [=](const fs::path& folder) {
    const auto file = or_throw(open_bytes(put(folder / "x.tar", bytes).string()));
    const RandomBytes random{file->name(), file->size(), [&](uint64_t at, void* to, uint64_t size) {
                               return or_throw(file->read(at, to, size));
                             }};
    WebDatasetReader reader(random);
    while (reader.next()) {
    }
  };
}

std::string pax(const std::string& record) {
  const std::string line = fmt::format("{} {}\n", record.size() + 4, record);
  return tar_header("pax", 'x', line.size()) + line + std::string(512 - line.size(), '\0');
}

// A set of two shards of one sample each: what the files of the first say instead. counts: of x.tar, and what
// follows it.
auto set(const std::string& counts, const std::vector<uint64_t>& index) {
  return [=](const fs::path& folder) {
    put(folder / "set/.nv-meta/.info.json", fmt::format(R"({{"shard_counts": {{"x.tar": {}}}}})", counts));
    for (const char* shard : {"x.tar", "y.tar"})
      put(folder / "set" / shard, test::tar_bytes({{"a.txt", "1"}}));
    std::string offsets;
    for (const uint64_t at : index) offsets += little(at);
    put(folder / "set/x.tar.idx", offsets);
    const ShardSet shards((folder / "set").string());
    shards.reading(0, 0, [](const SampleShard& shard) { return shard.at(0).fields.size(); });
  };
}

auto mds(uint64_t bytes, uint64_t samples, uint32_t in_file, std::vector<uint32_t> offsets) {
  return [=](const fs::path& folder) {
    std::string file = little(in_file, 4);
    for (const uint32_t at : offsets) file += little(at, 4);
    file += std::string(64, 'x');
    put(folder / "mds/s.mds", file);
    put(folder / "mds/index.json",
        fmt::format(R"({{"version": 2, "shards": [{{"version": 2, "format": "mds", "compression": null,
          "column_names": ["v"], "column_encodings": ["bytes"], "column_sizes": [null], "hashes": [],
          "samples": {}, "raw_data": {{"basename": "s.mds", "bytes": {}, "hashes": {{}}}}, "zip_data": null}}]}})",
                    samples, bytes ? bytes : file.size()));
    const auto files = mds_files((folder / "mds").string());
    const auto shard = open_mds(files.value().at(0));
    for (uint64_t i = 0; i < shard->size(); ++i) shard->at(i);
  };
}

// h5py's file, whose old format has no checksums, with `stated` for the sizes of its dataset of 5 x 6.
auto hdf5_with(uint64_t rows, uint64_t columns) {
  return [=](const fs::path& folder) {
    std::ifstream in(fs::path(KINORA_TEST_DATA) / "oracle/latents_old.h5", std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const size_t at = bytes.find(little(5) + little(6));
    if (at == std::string::npos) return;  // seen as a size that was not refused
    bytes.replace(at, 16, little(rows) + little(columns));
    const hdf5::File file(or_throw(open_bytes(put(folder / "x.h5", bytes).string())));
    const auto samples = file.members(file.members(file.root()).at("samples"));
    std::vector<std::byte> got;
    for (const auto& [name, address] : file.members(samples.at("clip 0")))
      file.read(address, [&](const hdf5::Dataset& d) {
        got.resize(d.bytes);
        return std::span(got);
      });
  };
}

const std::string kHuge = "1099511627776", kMost = "9223372036854775807";

const std::vector<Stated> kStated{
    {"safetensors, header", safetensors("{}", uint64_t{1} << 40), "x.safetensors"},
    {"safetensors, header of 2^64 - 1", safetensors("{}", ~uint64_t{0}), "x.safetensors"},
    {"safetensors, tensor",
     safetensors("{" + tensor("a", "F32", "[1099511627776]", "[0,4398046511104]") + "}"), "x.safetensors"},
    {"safetensors, product", safetensors("{" + tensor("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}"),
     "impossible shape"},
    {"safetensors, offsets",
     safetensors("{" + tensor("a", "U8", "[16]", "[18446744073709551600,18446744073709551616]") + "}"),
     "x.safetensors"},
    {"packed, no rows",
     safetensors("{" + tensor("m.weight_packed", "U8", "[0,4611686018427387904]", "[0,0]") + "," +
                 tensor("m.weight_scale", "F8_E4M3", "[0,0]", "[0,0]") + "," +
                 tensor("pad", "U8", "[64]", "[0,64]") + "}"),
     "m.weight_packed"},
    {"npy", npy("(1099511627776,)"), "x.npy"},
    {"npy, product", npy("(4294967296, 4294967296)"), "x.npy"},
    {"npy, most", npy("(9223372036854775807, 2)"), "x.npy"},
    {"tar", tar(tar_header("a.txt", '0', uint64_t{1} << 40) + std::string(512, 'x')), "x.tar"},
    {"tar, 2^63 - 1", tar(tar_header("a.txt", '0', INT64_MAX) + std::string(512, 'x')), "x.tar"},
    {"tar, within the limit of a sample",
     tar(tar_header("a.txt", '0', 4'000'000'000) + std::string(512, 'x')), "x.tar"},
    {"tar, long name", tar(tar_header("././@LongLink", 'L', uint64_t{1} << 40) + std::string(1024, 'x')),
     "x.tar"},
    {"tar, pax", tar(pax("size=1099511627776") + tar_header("a.txt", '0', 1) + std::string(512, 'x')),
     "x.tar"},
    {"tar, pax header", tar(tar_header("pax", 'x', uint64_t{1} << 40) + std::string(512, 'x')), "x.tar"},
    {"energon, counts", set(kHuge, {0, 1024}), "x.tar"},
    {"energon, counts of 2^63 - 1", set(kMost, {0, 1024}),
     "x.tar: has 9223372036854775807 samples by its index, more than any"},
    {"energon, a sum of counts", set("1125899906842624, \"y.tar\": 1", {0, 1024}),
     "y.tar: has 1 samples by its index, more than any"},
    {"energon, index", set("1", {0, uint64_t{1} << 40}), "x.tar"},
    {"energon, index from the end", set("1", {uint64_t{1} << 40, uint64_t{1} << 41}), "x.tar"},
    {"energon, index of 2^64 - 1", set("1", {1024, ~uint64_t{0}}), "x.tar"},
    {"mds, bytes", mds(uint64_t{1} << 40, 1, 1, {12, 20}), "mds/index.json"},
    {"mds, 2^32 - 1 bytes", mds(0xffffffff, 1, 1, {12, 20}), "s.mds"},
    {"mds, samples", mds(0, uint64_t{1} << 40, 1, {12, 20}), "mds/index.json"},
    {"mds, samples whose offsets wrap", mds(0, uint64_t{1} << 62, 0, {12, 20}), "mds/index.json"},
    {"mds, samples in the file", mds(0, 0xffffffff, 0xffffffff, {12, 20}), "s.mds"},
    {"mds, offsets", mds(0, 1, 1, {12, 0xffffffff}), "s.mds"},
    {"hdf5, shape", hdf5_with(uint64_t{1} << 40, 6), "shape and stored bytes disagree"},
    {"hdf5, product", hdf5_with(uint64_t{1} << 32, uint64_t{1} << 32), "shape and stored bytes disagree"},
    {"hdf5, most", hdf5_with(~uint64_t{0}, 6), "its shape is damaged"},
};

class StatedSizes : public testing::TestWithParam<Stated> {};

// In a process of its own, whose memory may grow by 64 MiB (but for the sanitizers, which refuse such sizes
// themselves).
[[noreturn]] void read_limited(const Stated& stated) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  const rlimit limit{pages * 4096 + (64 << 20), RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const fs::path folder = fs::temp_directory_path() / fmt::format("kinora-stated-{}", getpid());
  int code = 4;
  try {
    stated.read(folder);
    std::cerr << "nothing was refused\n";
  } catch (const Error& e) {
    std::cerr << e.what() << "\n";
    code = e.code() == KINORA_ERROR_NO_MEMORY ? 3 : 0;
  } catch (const std::bad_alloc&) {
    std::cerr << "out of memory\n";
    code = 3;
  }
  fs::remove_all(folder);
  std::_Exit(code);
}

TEST_P(StatedSizes, AreComparedWithTheFile) {
  EXPECT_EXIT(read_limited(GetParam()), testing::ExitedWithCode(0), testing::HasSubstr(GetParam().said));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(StatedSizesLimit, SeesWhatIsAllocatedWithoutAComparison) {
  const Stated careless{"", [](const fs::path&) { std::vector<char> all(uint64_t{100} << 20); }, ""};
  EXPECT_EXIT(read_limited(careless), testing::ExitedWithCode(3), "out of memory");
}
#endif

INSTANTIATE_TEST_SUITE_P(All, StatedSizes, testing::ValuesIn(kStated), [](const auto& info) {
  std::string name = info.param.what;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace kinora::core
