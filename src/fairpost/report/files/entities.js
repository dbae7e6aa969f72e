function mountEntities() {}
