#include "kinora/plugin.hpp"

#include "plugins/storage/http/http_storage.hpp"

using kinora::web::HttpsStorage;
using kinora::web::HttpStorage;
KINORA_COMPONENT(HttpStorage)
KINORA_COMPONENT(HttpsStorage)
KINORA_PLUGIN(HttpStorage, HttpsStorage)
