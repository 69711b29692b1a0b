// The manifest is JSON, but says neither version nor anything that follows.
namespace {

[[gnu::section(".attnlab.manifest"), gnu::used]] constexpr char manifest[] =
    "{\"id\": \"broken/manifest_lacks_fields\", \"kind\": \"attention\"}";

}  // namespace
