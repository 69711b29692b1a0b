set(_libraries attnlab_pictures)
if(NOT TARGET attnlab_pictures)
  set(_lacks "OpenCV (libopencv-imgcodecs-dev) and libjpeg-turbo (libjpeg62-turbo-dev)")
endif()
