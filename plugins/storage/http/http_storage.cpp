#include "plugins/storage/http/http_storage.hpp"

namespace kinora::web {

void WebStorage::describe_options(Describe<Options>& d) {
  d.option("ca_file", &Options::ca_file).path().help("certificates to trust instead of the system's");
  d.option("connect_timeout", &Options::connect_timeout)
      .range(0.1, 3600)
      .unit("s")
      .help("longest time to connect");
  d.option("timeout", &Options::timeout)
      .range(1, 86400)
      .unit("s")
      .help("time with fewer than 1000 bytes/s from the server after which a request is repeated");
  d.option("retries", &Options::retries)
      .range(0, 100)
      .help("successive retries of a request, with growing random pauses between them");
  d.option("parallel", &Options::parallel).range(1, 64).help("simultaneous requests of one large read");
  d.option("read_ahead", &Options::read_ahead)
      .bytes()
      .range(1 << 20, 1 << 30)
      .help("bytes that one reader may hold; a quarter of it is fetched ahead during sequential reads");
}

void HttpStorage::describe(Describe<Options>& d) {
  d.name("http").help("Files of a web server, read by ranges, http://HOST/FILE");
  describe_options(d);
}

void HttpsStorage::describe(Describe<Options>& d) {
  d.name("https").help("Files of a web server, read by ranges over TLS, https://HOST/FILE");
  describe_options(d);
}

std::unique_ptr<StorageReader> WebStorage::open(std::string_view path) {
  const Options& options = client_->options();
  return std::make_unique<ranged::RangedReader>(std::make_unique<WebFile>(client_, address_of(scheme_, path)),
                                                static_cast<uint64_t>(options.read_ahead),
                                                static_cast<uint64_t>(options.parallel));
}

int32_t WebStorage::list(std::string_view path, const Each& each) {
  const Address at = address_of(scheme_, path);
  if (at.url.ends_with('/')) refuse_folder(at.uri);
  const Client::About about = client_->about(at);
  return each({sizeof(kinora_entry), 0, str(""), about.size, about.modified * 1'000'000'000});
}

void WebStorage::refuse_writing(std::string_view path) const {
  throw Error(KINORA_ERROR_UNSUPPORTED,
              address_of(scheme_, path).uri +
                  ": a web server is only read; write to a folder of this machine or to s3://BUCKET/KEY");
}

std::unique_ptr<StorageWriter> WebStorage::begin(std::string_view path) { refuse_writing(path); }

void WebStorage::remove(std::string_view path) { refuse_writing(path); }

}  // namespace kinora::web
