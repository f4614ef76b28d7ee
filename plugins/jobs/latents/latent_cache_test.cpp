#include "plugins/jobs/latents/latent_cache.hpp"

#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "kinora/error.hpp"
#include "plugins/jobs/latents/hdf5_writing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void read_all(const LatentCache& cache) {
  for (const auto& key : cache.keys()) cache.read(key);
}

class LatentCacheIn : public testing::Test {
 protected:
  LatentCacheIn() : folder_(fs::temp_directory_path() / ("kinora-latents-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~LatentCacheIn() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name) {
    at::manual_seed(1);
    LatentCacheWriter w(folder_ / name, R"({"tokenizer":"wan"})");
    w.add("a/b.c",
          {{"latent", at::randn({16, 3, 60, 104})}, {"text", at::randn({512, 64}).to(at::kBFloat16)}});
    w.add("z", {{"latent", at::randn({16, 1, 8, 8}).to(at::kHalf)},
                {"mask", at::rand({7}) > 0.5},
                {"empty", at::zeros({0, 4})},
                {"ids", at::arange(5)},
                {"scale", at::full({}, 2.5, at::kDouble)}});
    w.commit();
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(LatentCacheIn, GivesBackEveryDtypeBitForBitInTheOrderAdded) {
  const LatentCache c(write("c.h5"));
  EXPECT_THAT(c.keys(), ElementsAre("a/b.c", "z"));
  EXPECT_EQ(c.about(), R"({"tokenizer":"wan"})");
  at::manual_seed(1);
  const auto latent = at::randn({16, 3, 60, 104}), text = at::randn({512, 64}).to(at::kBFloat16),
             half = at::randn({16, 1, 8, 8}).to(at::kHalf), mask = at::rand({7}) > 0.5;
  EXPECT_TRUE(at::equal(c.read("a/b.c").at("latent"), latent));
  EXPECT_TRUE(at::equal(c.read("a/b.c").at("text"), text));
  const auto z = c.read("z");
  EXPECT_TRUE(at::equal(z.at("latent"), half));
  EXPECT_TRUE(at::equal(z.at("mask"), mask));
  EXPECT_EQ(z.at("mask").scalar_type(), at::kBool);
  EXPECT_EQ(z.at("empty").sizes(), (at::IntArrayRef{0, 4}));
  EXPECT_TRUE(at::equal(z.at("ids"), at::arange(5)));
  EXPECT_EQ(z.at("scale").item<double>(), 2.5);
  EXPECT_FALSE(c.has("a"));
  EXPECT_THAT(test::refusal([&] { c.read("a"); }), HasSubstr("no sample 'a'"));
}

TEST_F(LatentCacheIn, EqualContentsAreEqualBytes) {
  const auto bytes = [](const fs::path& p) {
    std::ifstream in(p, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const auto first = bytes(write("1.h5"));
  EXPECT_EQ(first, bytes(write("2.h5")));
}

TEST_F(LatentCacheIn, DigestChangesWithAnyKeyNameShapeDtypeOrNumber) {
  int files = 0;
  const auto digest = [&](const std::vector<std::pair<std::string, NamedTensors>>& samples) {
    const fs::path path = folder_ / (std::to_string(files++) + ".h5");
    LatentCacheWriter w(path, "{}");
    for (const auto& [key, tensors] : samples) w.add(key, tensors);
    w.commit();
    return LatentCache(path).digest();
  };
  const at::Tensor x = at::arange(6, at::kFloat), y = at::ones({2});
  std::set<std::string> all{digest({{"a", {{"x", x}}}, {"b", {{"x", y}}}})};
  EXPECT_EQ(all.begin()->size(), 64U);
  EXPECT_EQ(digest({{"a", {{"x", x.clone()}}}, {"b", {{"x", y}}}}), *all.begin());
  all.insert(digest({{"b", {{"x", y}}}, {"a", {{"x", x}}}}));
  all.insert(digest({{"a", {{"x", x}}}, {"c", {{"x", y}}}}));
  all.insert(digest({{"a", {{"y", x}}}, {"b", {{"x", y}}}}));
  all.insert(digest({{"a", {{"x", x.view({2, 3})}}}, {"b", {{"x", y}}}}));
  all.insert(digest({{"a", {{"x", x.view(at::kInt)}}}, {"b", {{"x", y}}}}));
  all.insert(digest({{"a", {{"x", x}}}, {"b", {{"x", at::nextafter(y, y + 1)}}}}));
  EXPECT_EQ(all.size(), 7U);
}

TEST_F(LatentCacheIn, AppearsOnCommitOnlyAndTakesAKeyOnce) {
  {
    LatentCacheWriter w(folder_ / "c.h5", "{}");
    w.add("a", {{"x", at::ones({2})}});
    EXPECT_THAT(test::refusal([&] { w.add("a", {}); }), HasSubstr("added before"));
    EXPECT_FALSE(fs::exists(folder_ / "c.h5"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(LatentCacheIn, ManyThreadsMayRead) {
  const LatentCache c(write("c.h5"));
  const double want = c.read("a/b.c").at("latent").sum().item<double>();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i)
        right += c.read("a/b.c").at("latent").sum().item<double>() == want && c.read("z").size() == 5;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 40);
}

TEST_F(LatentCacheIn, DamagedDataIsNamed) {
  const auto path = write("c.h5");
  std::fstream f(path, std::ios::binary | std::ios::in | std::ios::out);
  f.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
  f.write("damage", 6);
  f.close();
  const LatentCache c(path);
  EXPECT_THAT(test::refusal([&] { read_all(c); }),
              testing::AllOf(HasSubstr("dataset samples/a%2Fb.c/"), HasSubstr("damaged"),
                             HasSubstr("remove the file")));
}

// A limit on file sizes simulates a full disk. HDF5 used to crash at the process' exit.
TEST_F(LatentCacheIn, OtherFilesAreNotReadThroughIt) {
  const auto other = write("other.h5");
  const auto changed = [&](const std::string& name, const std::function<void(hid_t)>& change) {
    const auto path = write(name);
    const auto held = hdf5::lock();
    const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    change(file.get());
    return path;
  };
  const auto link = [&](hid_t file, const char* what) {
    ASSERT_GE(H5Ldelete(file, what, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_external(other.c_str(), what, file, what, H5P_DEFAULT, H5P_DEFAULT), 0);
  };
  for (const char* what : {"/samples", "/samples/z", "/samples/z/ids", "/keys"}) {
    const auto path = changed("link.h5", [&](hid_t file) { link(file, what); });
    EXPECT_THAT(kinora::test::refusal([&] { LatentCache(path).read("z"); }), HasSubstr("link.h5")) << what;
  }
  const auto stored = changed("stored.h5", [&](hid_t file) {
    ASSERT_GE(H5Ldelete(file, "/samples/z/ids", H5P_DEFAULT), 0);
    const hsize_t size = 5;
    const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose),
        space(H5Screate_simple(1, &size, nullptr), H5Sclose);
    H5Pset_external(creation.get(), other.c_str(), 0, 40);
    const hdf5::Handle set(H5Dcreate2(file, "/samples/z/ids", H5T_STD_I64LE, space.get(), H5P_DEFAULT,
                                      creation.get(), H5P_DEFAULT),
                           H5Dclose);
    ASSERT_TRUE(static_cast<bool>(set));
  });
  EXPECT_THAT(kinora::test::refusal([&] { LatentCache(stored).read("z"); }),
              HasSubstr("its data is in another file"));
}

TEST_F(LatentCacheIn, AFullDiskIsAnErrorWithoutACrashAtExit) {
  const auto fill = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string said = test::refusal([&] {
      LatentCacheWriter w(folder_ / "full.h5", "{}");
      for (int i = 0; i < 10; ++i) w.add("key" + std::to_string(i), {{"x", at::rand({100, 100})}});
      w.commit();
    });
    std::cerr << said << "\n";
    std::exit(fs::exists(folder_ / "full.h5") ? 1 : 3);
  };
  EXPECT_EXIT(fill(), testing::ExitedWithCode(3), "full.h5: .*File too large; free some space and run again");
}

TEST_F(LatentCacheIn, AnythingElseIsAnErrorNotACrash) {
  EXPECT_THAT(test::refusal([&] { LatentCache(folder_ / "none.h5"); }), HasSubstr("No such file"));
  std::ofstream(folder_ / "text.h5") << "hello";
  EXPECT_THAT(test::refusal([&] { LatentCache(folder_ / "text.h5"); }), HasSubstr("not a whole HDF5 file"));
  const auto path = write("c.h5");
  const auto size = fs::file_size(path);
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const auto copy = folder_ / "m.h5";
    fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
    if (round % 3 == 0) {
      fs::resize_file(copy, random() % size);
    } else {
      std::fstream f(copy, std::ios::binary | std::ios::in | std::ios::out);
      // Half of the edits hit metadata, which is at both ends.
      f.seekp(static_cast<std::streamoff>(round % 3 == 1 ? random() % 4096 : random() % size));
      const auto edit = static_cast<char>(random());
      f.write(&edit, 1);
    }
    test::refusal([&] { read_all(LatentCache(copy)); });
  }
}

}  // namespace
}  // namespace kinora::core
