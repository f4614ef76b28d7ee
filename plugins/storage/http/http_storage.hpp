// storage/http and storage/https: files of web servers, read by ranges. Such a server has no lists of
// folders: list() of a file gives the file itself, under the name "".
#pragma once
#include "kinora/storage.hpp"
#include "plugins/storage/http/client.hpp"

namespace kinora::web {

class WebStorage : public Storage {
 public:
  using Options = web::Options;
  std::unique_ptr<StorageReader> open(std::string_view path) override;
  std::unique_ptr<StorageWriter> begin(std::string_view path) override;
  int32_t list(std::string_view path, const Each& each) override;
  void remove(std::string_view path) override;
  void interrupt() override { ranged::interrupt(); }

 protected:
  WebStorage(const char* scheme, const Options& options)
      : scheme_(scheme), client_(std::make_shared<Client>(options)) {}
  static void describe_options(Describe<Options>& d);

 private:
  [[noreturn]] void refuse_writing(std::string_view path) const;
  const char* scheme_;
  std::shared_ptr<Client> client_;
};

class HttpStorage final : public WebStorage {
 public:
  static void describe(Describe<Options>& d);
  explicit HttpStorage(const Options& options) : WebStorage("http", options) {}
};

class HttpsStorage final : public WebStorage {
 public:
  static void describe(Describe<Options>& d);
  explicit HttpsStorage(const Options& options) : WebStorage("https", options) {}
};

}  // namespace kinora::web
