set(_libraries attnlab_voc)
if(NOT TARGET attnlab_voc)
  set(_lacks "OpenCV, libjpeg-turbo and pugixml (libopencv-imgcodecs-dev, libjpeg62-turbo-dev, libpugixml-dev)")
endif()
