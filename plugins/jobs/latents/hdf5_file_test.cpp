// The reader of latents against libhdf5, which writes here, and against h5py's files
// (tests/oracle/make_latents_fixtures.py); and files that ask for more than a cache does.
#include "plugins/jobs/latents/hdf5/hdf5_file.hpp"

#include <cstring>
#include <fstream>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/latents/hdf5_writing.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using hdf5::Handle;
using testing::HasSubstr;

class HdfFile : public testing::Test {
 protected:
  HdfFile() : folder_(fs::temp_directory_path() / ("kinora-hdf-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~HdfFile() override { fs::remove_all(folder_); }

  // A file that libhdf5 writes in a format: what `fill` does with it.
  fs::path written(const std::string& name, H5F_libver_t format,
                   const std::function<void(hid_t)>& fill) const {
    const auto held = hdf5::lock();
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_libver_bounds(access.get(), format, std::max(format, H5F_LIBVER_V18));
    const Handle file(H5Fcreate((folder_ / name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                      H5Fclose);
    EXPECT_TRUE(static_cast<bool>(file));
    fill(file.get());
    return folder_ / name;
  }
  static hdf5::File opened(const fs::path& path) { return hdf5::File(or_throw(open_bytes(path.string()))); }
  fs::path folder_;
};

std::vector<int32_t> read_ints(const hdf5::File& file, uint64_t address) {
  std::vector<int32_t> out;
  file.read(address, [&](const hdf5::Dataset& d) {
    EXPECT_EQ(d.dtype, SafeDtype::i32);
    out.resize(d.bytes / 4);
    return std::as_writable_bytes(std::span(out));
  });
  return out;
}

Handle simple(const std::vector<hsize_t>& dims) {
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose};
}

// Without values only the dataset's description is written.
void put_ints(hid_t at, const char* name, const std::vector<hsize_t>& dims,
              const std::vector<int32_t>& values, hid_t creation = H5P_DEFAULT) {
  const Handle set(
      H5Dcreate2(at, name, H5T_STD_I32LE, simple(dims).get(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  ASSERT_TRUE(static_cast<bool>(set));
  if (values.empty()) return;
  ASSERT_GE(H5Dwrite(set.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
}

TEST_F(HdfFile, HasTheMembersThatLibhdf5Wrote) {
  for (const auto format : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18}) {
    for (const int count : {0, 1, 8, 9, 40, 3000}) {
      std::map<std::string, int32_t> want;
      const auto path = written("members.h5", format, [&](hid_t file) {
        for (int i = 0; i < count; ++i) {
          const std::string name =
              "member " + std::to_string(i) + std::string(static_cast<size_t>(i % 90), 'x');
          want[name] = i;
          put_ints(file, name.c_str(), {1}, {i});
        }
      });
      const auto file = opened(path);
      const auto members = file.members(file.root());
      ASSERT_EQ(members.size(), want.size());
      for (const auto& [name, value] : want) {
        ASSERT_TRUE(members.contains(name)) << name;
        ASSERT_EQ(read_ints(file, members.at(name)), std::vector{value}) << name;
      }
    }
  }
}

TEST_F(HdfFile, HasTheElementsThatLibhdf5Wrote) {
  const std::vector<std::vector<hsize_t>> chunks{{},        {7, 5, 6}, {1, 1, 1}, {2, 5, 6},
                                                 {7, 2, 4}, {3, 3, 3}, {1, 5, 6}, {7, 5, 1}};
  const std::vector<hsize_t> dims{7, 5, 6};
  std::vector<int32_t> want(7 * 5 * 6);
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<int32_t>(i * i * 2654435761U);
  for (const auto format : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18})
    for (const auto& chunk : chunks)
      for (const bool checked : {false, true}) {
        if (chunk.empty() && checked) continue;
        const auto path = written("elements.h5", format, [&](hid_t file) {
          const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
          if (!chunk.empty()) H5Pset_chunk(creation.get(), 3, chunk.data());
          if (checked) H5Pset_fletcher32(creation.get());
          put_ints(file, "x", dims, want, creation.get());
        });
        const auto file = opened(path);
        EXPECT_EQ(read_ints(file, file.members(file.root()).at("x")), want) << testing::PrintToString(chunk);
      }
}

TEST_F(HdfFile, HasWhatH5pyWrote) {
  for (const char* name : {"latents_old.h5", "latents_new.h5"}) {
    const LatentCache cache(fs::path(KINORA_TEST_DATA) / "oracle" / name);
    EXPECT_EQ(cache.about(), R"({"job":"latents"})");
    ASSERT_EQ(cache.keys().size(), 12U);
    for (int k = 0; k < 12; ++k)
      EXPECT_EQ(cache.read("clip " + std::to_string(k)).at("one").item<double>(), k);
    const auto got = cache.read("clip 1");
    EXPECT_TRUE(at::equal(got.at("chunks"), 1 + at::arange(30, at::kFloat).reshape({5, 6})));
    EXPECT_TRUE(at::equal(got.at("plain_chunks"), (1 + at::arange(6)).to(at::kShort)));
    EXPECT_TRUE(at::equal(got.at("bfloat16"), (1 + at::arange(3)).to(at::kBFloat16)));
    EXPECT_TRUE(at::equal(got.at("bool"), at::tensor({1, 0, 1}).to(at::kBool)));
    for (const auto& [dtype, type] : {std::pair{"f8", at::kDouble},
                                      {"f2", at::kHalf},
                                      {"i8", at::kLong},
                                      {"i4", at::kInt},
                                      {"i1", at::kChar},
                                      {"u1", at::kByte}}) {
      ASSERT_EQ(got.at(dtype).scalar_type(), type) << dtype;
      EXPECT_TRUE(at::equal(got.at(dtype), (1 + at::arange(4)).to(type).reshape({2, 2}))) << dtype;
    }
  }
}

// A stranger's file can ask for more than a cache does: each such wish is an error in words.
TEST_F(HdfFile, FollowsNothingThatACacheDoesNotHave) {
  const auto said = [&](const char* member, H5F_libver_t format, const std::function<void(hid_t)>& fill) {
    const auto path = written("asked.h5", format, fill);
    return test::refusal([&] {
      const auto file = opened(path);
      read_ints(file, file.members(file.root()).at(member));
    });
  };
  const auto with_creation = [&](const std::function<void(hid_t)>& set) {
    return [set](hid_t file) {
      const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
      set(creation.get());
      put_ints(file, "x", {4}, {}, creation.get());
    };
  };
  const auto path_of = [&](const char* name) { return (folder_ / name).string(); };
  for (const auto format : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18}) {
    EXPECT_THAT(said("x", format, [](hid_t f) { H5Lcreate_soft("/y", f, "x", H5P_DEFAULT, H5P_DEFAULT); }),
                HasSubstr("link to another place"));
    EXPECT_THAT(said("x", format,
                     [&](hid_t f) {
                       H5Lcreate_external(path_of("other.h5").c_str(), "/x", f, "x", H5P_DEFAULT,
                                          H5P_DEFAULT);
                     }),
                HasSubstr("link to another place"));
    EXPECT_THAT(
        said("x", format, with_creation([&](hid_t p) { H5Pset_external(p, path_of("raw").c_str(), 0, 16); })),
        HasSubstr("its data is in another file"));
    const hsize_t two = 2;
    EXPECT_THAT(said("x", format, with_creation([&](hid_t p) {
                       H5Pset_chunk(p, 1, &two);
                       H5Pset_deflate(p, 9);
                     })),
                HasSubstr("filter 1, which caches do not use"));
    EXPECT_THAT(said("x", format, with_creation([&](hid_t p) {
                       H5Pset_chunk(p, 1, &two);
                       H5Pset_shuffle(p);
                       H5Pset_fletcher32(p);
                     })),
                HasSubstr("filter 2, which caches do not use"));
    // 4 TiB of which no byte is stored.
    EXPECT_THAT(said("x", format,
                     [&](hid_t f) {
                       const Handle set(
                           H5Dcreate2(f, "x", H5T_STD_I32LE, simple({hsize_t{1} << 20, 1 << 20}).get(),
                                      H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           H5Dclose);
                     }),
                HasSubstr("shape and stored bytes disagree"));
    // A filter that libhdf5 would load from HDF5_PLUGIN_PATH.
    EXPECT_THAT(said("x", format, with_creation([&](hid_t p) {
                       H5Pset_chunk(p, 1, &two);
                       H5Pset_filter(p, 32001, H5Z_FLAG_OPTIONAL, 0, nullptr);
                     })),
                HasSubstr("filter 32001, which caches do not use"));
    // A committed type is in another object.
    EXPECT_THAT(said("x", format,
                     [&](hid_t f) {
                       const Handle type(H5Tcopy(H5T_STD_I32LE), H5Tclose);
                       H5Tcommit2(f, "type", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
                       const Handle set(H5Dcreate2(f, "x", type.get(), simple({4}).get(), H5P_DEFAULT,
                                                   H5P_DEFAULT, H5P_DEFAULT),
                                        H5Dclose);
                     }),
                HasSubstr("type is in another object"));
  }
  EXPECT_THAT(said("x", H5F_LIBVER_LATEST,
                   [](hid_t f) {
                     put_ints(f, "x", {4}, {1, 2, 3, 4});
                   }),
              HasSubstr("layout 4"));
  EXPECT_THAT(said("x", H5F_LIBVER_LATEST, with_creation([&](hid_t p) {
                     H5Pset_virtual(p, simple({4}).get(), path_of("other.h5").c_str(), "x",
                                    simple({4}).get());
                   })),
              HasSubstr("its data is in another file"));
}

class Memory final : public ByteSource {
 public:
  explicit Memory(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    if (size > 0) std::memcpy(to, bytes_.data() + offset, size);
    return size;
  }

 private:
  std::string bytes_, name_ = "memory";
};

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string le(uint64_t n, size_t width) {
  std::string out(width, '\0');
  std::memcpy(out.data(), &n, width);
  return out;
}

// Reads all datasets of the root.
std::string said_of(std::string bytes) {
  const auto size = bytes.size();
  return test::refusal([&] {
    const hdf5::File file(std::make_shared<Memory>(std::move(bytes)), hdf5::Checksums::ignored);
    for (const auto& [name, address] : file.members(file.root())) {
      std::vector<std::byte> got;
      file.read(address, [&](const hdf5::Dataset& d) {
        EXPECT_LE(d.bytes, size);
        got.resize(d.bytes);
        return std::span(got);
      });
    }
  });
}

// Numbers at the limits over each byte of a good file, whose checksums are ignored: values or an error, in memory that
// the file's size bounds. The sanitizers see the rest.
TEST_F(HdfFile, AnyByteMayBeWrong) {
  const auto whole = contents(written("whole.h5", H5F_LIBVER_V18, [&](hid_t file) {
    for (int i = 0; i < 10; ++i) put_ints(file, std::to_string(i).c_str(), {2}, {i, i});
  }));
  EXPECT_EQ(said_of(whole), "nothing was refused");
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = value;
      said_of(std::move(bytes));
    }
}

// A tree of six levels, each node of which names the node below 60 times: 60^6 ways for 10 kB.
TEST_F(HdfFile, OneBlockManyTimesIsDamage) {
  std::string bytes = contents(written("tree.h5", H5F_LIBVER_EARLIEST, [&](hid_t file) {
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const hsize_t two = 2;
    H5Pset_chunk(creation.get(), 1, &two);
    put_ints(file, "x", {4}, {1, 2, 3, 4}, creation.get());
  }));
  EXPECT_EQ(said_of(bytes), "nothing was refused");
  const size_t tree = bytes.find("TREE\x01"), named = bytes.find(le(tree, 8));
  ASSERT_NE(tree, std::string::npos);
  ASSERT_NE(named, std::string::npos);
  uint64_t below = 0;
  for (uint64_t level = 0; level < 7; ++level) {
    const uint64_t here = bytes.size(), entries = level == 0 ? 0 : 60;
    bytes += "TREE\x01" + le(level, 1) + le(entries, 2) + std::string(16, '\xff');
    for (uint64_t i = 0; i < entries; ++i) bytes += std::string(8 + 16, '\0') + le(below, 8);
    bytes += std::string(8 + 16, '\0');
    below = here;
  }
  bytes.replace(named, 8, le(below, 8));
  EXPECT_THAT(said_of(bytes), HasSubstr("the list of its chunks is damaged"));
}

// A header whose only message says that it continues at this message.
TEST_F(HdfFile, AHeaderThatContinuesAtItselfIsDamage) {
  std::string bytes = contents(written("header.h5", H5F_LIBVER_EARLIEST, [](hid_t) {}));
  const uint64_t here = bytes.size();
  bytes += le(1, 2) + le(1, 2) + le(1, 4) + le(24, 8);
  bytes += le(0x10, 2) + le(16, 2) + le(0, 4) + le(here + 16, 8) + le(24, 8);
  const hdf5::File file(std::make_shared<Memory>(bytes));
  EXPECT_THAT(test::refusal([&] { file.members(here); }), HasSubstr("the header of an object"));
}

}  // namespace
}  // namespace kinora::core
